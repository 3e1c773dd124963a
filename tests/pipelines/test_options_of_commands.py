"""What all commands take: options from a file, --dry-run, --json."""

import csv
import inspect
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins import io
from beam_joins.io import ReadChangeEvents, ReadChangelog
from beam_joins.pipelines.base.declared_options import declared_options
from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.formats import line_files
from beam_joins.pipelines.join import JOIN
from beam_joins.pipelines.systems.files.changelog_options import plain_columns
from tests.pipelines.history import tree
from tests.pipelines.join_run import BY, RIGHT, TEA, refused
from tests.pipelines.orders_run import Run, read_lines, write

OPTIONS = """\
left = "l.jsonl"
right = "r.jsonl"
foreign-key = "by"
how = "left"
select = ["left.id", "right.name"]
left-sequence-by = ["lsn", "n"]
right-sequence-by = "lsn"
latest = "now.jsonl"
parts = false
beam_joins_partitions = 3
"""


@pytest.mark.parametrize("reader", [ReadChangelog, ReadChangeEvents])
def test_options_of_an_input_are_the_readers_with_its_help(beam_joins: Run, reader: Any) -> None:
    options = declared_options(reader.__module__, reader.__name__)
    assert list(options) == list(inspect.signature(reader).parameters)
    assert all(option.text for option in options.values()), "each option has a bullet of its own"
    said = " ".join(beam_joins("join", "--help").out.split())
    of_commands = {"path", "schema", "except_columns", "emit", "without_earlier", "on_bad_record"}
    for name in options.keys() - of_commands:
        assert f"--left-{name.replace('_', '-')} " in said
    assert "--left-timestamp-unit {us,ms,s,ns} the unit of whole numbers in --left-timestamp-by, which count from 1970: us, " in said
    assert "The options of the left rows with --right- in place of --left-; --right-key is id by default." in said


def test_options_of_a_file_count_and_those_of_the_command_line_win(beam_joins: Run) -> None:
    Path("o.toml").write_text(OPTIONS)
    assert beam_joins("join", "--options", "o.toml").code == 0
    assert len(read_lines(Path("now.jsonl"))) == 3
    assert beam_joins("join", "--how=inner", "--options", "o.toml").code == 0
    assert read_lines(Path("now.jsonl")) == [{"id": 1, "name": "Bob"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('left-kye = "id"', "--options: o.toml has 'left-kye', which is no option: do you mean left-key?"),
        ('left_key = "id"', "--options: o.toml has 'left_key', which is no option: do you mean left-key?"),
        ("[left]", "--options: o.toml has 'left', which has a value that is neither text nor a number, nor a list of these"),
        ("left-key = true", "--options: o.toml has 'left-key', which needs a value, not true or false"),
        ('parts = "yes"', "--options: o.toml has 'parts', which is true or false"),
        ('options = "o.toml"', "--options: o.toml has 'options', which is no option"),
        ("left = ", "--options: o.toml is not TOML: Invalid value (at end of document)"),
        (None, "--options: cannot read o.toml: No such file or directory"),
    ],
)
def test_a_wrong_file_of_options_is_one_sentence(beam_joins: Run, text: str | None, message: str) -> None:
    if text is not None:
        Path("o.toml").write_text(text)
    assert refused(beam_joins("join", "--options", "o.toml")) == message


def test_a_list_of_an_option_that_may_be_repeated_is_each_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "o.toml"
    path.write_text('left-unavailable-value = ["[0]", "a,b"]\nleft-key = ["shop", "id"]\n')
    args = parse(JOIN, ["--options", str(path)])
    assert (args.left_unavailable_value, args.left_key) == (["[0]", "a,b"], "shop,id")


def test_of_several_files_with_options_all_count_and_the_later_wins(beam_joins: Run) -> None:
    Path("shared.toml").write_text('input = "l.jsonl"\nlatest = "shared.jsonl"\n')
    Path("own.toml").write_text('latest = "own.jsonl"\n')
    ran = beam_joins("table", "--options", "shared.toml", "--options=own.toml")
    assert ran.code == 0, ran.err
    assert (Path("own.jsonl").exists(), Path("shared.jsonl").exists()) == (True, False)


def test_a_dry_run_says_what_would_be_read_and_written_and_writes_nothing(beam_joins: Run) -> None:
    before = tree(".")
    ran = beam_joins("join", *BY, "--how", "left", "--select", "left.*, right as who", "--latest", "out/now.jsonl", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:9] == [
        "would read",
        f"  left rows: 1 file, {os.path.getsize('l.jsonl')} bytes",
        f"    l.jsonl, json lines, {os.path.getsize('l.jsonl')} bytes",
        "    columns      id: whole numbers, by: text, n: whole numbers, updated_at: whole numbers",
        "    key          id",
        "    sequence     lsn",
        "    time         updated_at, whole numbers in us",
        "    deletes      where op is one of -d, d, delete, deleted, remove, removed, t, true, truncate",
        f"  right rows: 1 file, {os.path.getsize('r.jsonl')} bytes",
    ]
    assert lines[lines.index("would write") : -3] == [
        "would write",
        "  latest       out/now.jsonl, json lines",
        "  rows of      id, by, n, updated_at, who (a row of right rows)",
        "pipeline on LocalRunner",
        "  TableFromChangelog(left rows by id)",
        "  TableFromChangelog(right rows by id)",
        "  ForeignKeyJoin(by refers to id, how=left)",
        "  LatestTable -> out/now.jsonl",
    ]
    assert tree(".") == before


def test_a_dry_run_says_what_empties_the_table_and_what_is_no_change(beam_joins: Run) -> None:
    options = ["--apply-as-truncates", "op=t,wipe", "--ignored", "op=old"]
    lines = beam_joins("table", "--input", "l.jsonl", *options, "--dry-run").out.splitlines()
    assert [line for line in lines if line.startswith(("    truncates", "    ignored"))] == [
        "    truncates    where op is one of t, wipe",
        "    ignored      where op is one of old",
    ]


def test_a_dry_run_needs_no_result(beam_joins: Run) -> None:
    for state in ([], ["--state-dir", "state"]):
        ran = beam_joins("table", "--input", "l.jsonl", *state, "--dry-run")
        assert (ran.code, ran.err) == (0, "")
        assert f"  nothing: a run needs {'--changes' if state else '--output'}, --latest or --to" in ran.out.splitlines()


def test_a_state_folder_that_is_a_file_is_one_sentence(beam_joins: Run) -> None:
    ran = beam_joins("table", "--input", "l.jsonl", "--latest", "now.jsonl", "--state-dir", "l.jsonl")
    assert refused(ran) == "--state-dir: l.jsonl is no folder: name one, which the first run makes"


@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_a_dry_run_reads_the_first_megabyte_of_a_file_at_most(beam_joins: Run, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    rows = [{**TEA, "id": n, "lsn": n, "note": f"{n * 7919 % 9973:0400}"} for n in range(8_000)]
    if format_ == "jsonl":
        write("big.jsonl", *rows)
    elif format_ == "csv":
        Path("big.csv").write_text("\n".join([",".join(TEA) + ",note", *(",".join(map(str, row.values())) for row in rows)]))
    else:
        pq.write_table(pa.Table.from_pylist(rows), "big.parquet", compression="none", use_dictionary=False)
    assert os.path.getsize(f"big.{format_}") > 3 << 20
    read: list[int] = []
    opened: Any = line_files.open_file

    def counted(*args: Any, **kwargs: Any) -> Any:
        file = opened(*args, **kwargs)
        inner = file.read

        def count(size: int = -1) -> bytes:
            data = inner(size)
            read.append(len(data))
            return bytes(data)

        monkeypatch.setattr(file, "read", count, raising=False)
        return file

    monkeypatch.setattr(line_files, "open_file", counted)
    ran = beam_joins("table", "--input", f"big.{format_}", "--latest", "now.jsonl", "--dry-run")
    assert ran.code == 0, ran.err
    assert "note: " in ran.out
    assert all(size <= 1 << 20 for size in read)
    assert not Path("now.jsonl").exists()


def test_the_summary_for_programs_has_counts_and_sizes_in_a_file_or_alone_on_the_standard_output(beam_joins: Run) -> None:
    write("r.jsonl", *RIGHT, {**RIGHT[0], "id": None})
    ran = beam_joins("join", *BY, "--how", "left", "--select", "left.id", "--latest", "now.jsonl", "--json", "s.json")
    message = json.loads(Path("s.json").read_text())
    assert "records in" in ran.out
    assert message["command"] == "join"
    assert message["inputs"]["left"] == {
        **{"read_records": 4, "dropped_records": {}, "passed_over_records": {}, "late_records": {}},
        **{"rows": 3, "unmatched_rows": 2, "unreferring_rows": 1},
    }
    assert message["inputs"]["right"] == {
        "read_records": 3,
        "dropped_records": {"null_key": 1},
        "passed_over_records": {},
        "late_records": {},
    }
    assert message["outputs"] == {"latest": {"written_records": 3, "size_bytes": 27, "paths": ["now.jsonl"]}}
    assert message["total_seconds"] == pytest.approx(sum(message["phase_seconds"].values()), abs=0.01)
    alone = beam_joins("table", "--input", "r.jsonl", "--latest", "t.jsonl", "--json", "-")
    assert json.loads(alone.out)["inputs"]["input"]["rows"] == 2


def test_with_follow_each_run_adds_a_line_of_its_summary(beam_joins: Run) -> None:
    Path("in").mkdir()
    write("in/1.jsonl", TEA)

    def stop() -> None:
        give_up = time.monotonic() + 90
        while not os.path.exists("s.jsonl") and time.monotonic() < give_up:
            time.sleep(0.05)
        if os.path.exists("s.jsonl"):  # else the run has failed, and nobody waits for a signal
            signal.raise_signal(signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    state = ["--state-dir", "state", "--latest", "now.jsonl", "--follow", "--whole-files", "--every", "100ms"]
    ran = beam_joins("table", "--input", "in", "--select", "id", *state, "--json", "s.jsonl")
    stopper.join()
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "stopped after 1 run; the results are in now.jsonl")
    (line,) = read_lines(Path("s.jsonl"))
    assert line["inputs"]["input"]["read_records"] == 1
    assert line["remarks"][0] == "run 1 with state: 1 new file"


NAMES = {"Order No": 1, "Cust. No": 7, 'Total "net", EUR': 1.5, "Größe": "L", "op=x": "c", "a:b": 5}
NAMED = {"Cust. No": 7, "Full Name": "Ann", "op=x": "c", "a:b": 4}


@pytest.fixture(params=["csv", "jsonl"])
def oddly_named(request: pytest.FixtureRequest, beam_joins: Run) -> tuple[str, str]:
    """Files whose columns have spaces, quotes, commas, dots, signs and letters that are not ASCII in their names."""
    paths = []
    for name, row in (("left", NAMES), ("right", NAMED)):
        paths.append(f"{name}.{request.param}")
        with Path(paths[-1]).open("w", newline="", encoding="utf-8") as file:
            if request.param == "csv":
                csv.writer(file).writerows([row.keys(), row.values()])
            else:
                json.dump(row, file)
    return paths[0], paths[1]


def test_columns_of_any_names_are_those_of_options(beam_joins: Run, oddly_named: tuple[str, str]) -> None:
    sides = {
        side: [f"--{side}-timestamp-by=a:b", f"--{side}-sequence-by=a:b", f'--{side}-apply-as-deletes="op=x"=d']
        for side in ("left", "right")
    }
    joined = ["join", "--left", oddly_named[0], "--right", oddly_named[1], *sides["left"], *sides["right"], "--right-key", "Cust. No"]
    options = ["--left-key", "Order No", "--foreign-key", "Cust. No", "--latest=out.jsonl"]
    assert beam_joins(*joined, *options).code == 0
    own = {name: NAMES[name] for name in ("Order No", 'Total "net", EUR', "Größe")}
    of_both = {"left_Cust. No": 7, "left_a:b": 5, "right_Cust. No": 7, "right_a:b": 4}
    assert read_lines(Path("out.jsonl")) == [{**own, **of_both, "Full Name": "Ann"}]
    selected = (
        'left."Order No" as nr, left."Total ""net"", EUR" as "net, EUR", left.Größe, right."Full Name", left."Cust. No" as "c.id"'
    )
    assert beam_joins(*joined, *options, "--select", selected).code == 0
    assert read_lines(Path("out.jsonl")) == [{"nr": 1, "net, EUR": 1.5, "Größe": "L", "c.id": 7, "Full Name": "Ann"}]
    types = '"Total ""net"", EUR":decimal(5,2), Größe:string,Cust. No:int64'
    keyed = ["--left-key", '"Order No", Größe', "--foreign-key", '"Cust. No"', "--left-schema-overrides", types]
    assert beam_joins(*joined, *keyed, "--latest=out.parquet").code == 0
    assert pq.read_schema("out.parquet").field('Total "net", EUR').type == pa.decimal128(5, 2)


def test_columns_of_any_names_are_those_of_a_table(beam_joins: Run, oddly_named: tuple[str, str]) -> None:
    of_change = ["--timestamp-by", "a:b", "--sequence-by", '"a:b"', '--apply-as-deletes="op=x"=c']
    table = ["table", "--input", oddly_named[0], "--key", '"Order No"', "--latest=out.jsonl"]
    assert beam_joins(*table, *of_change, '--apply-as-upserts="op=x"=u').code == 0
    assert read_lines(Path("out.jsonl")) == []
    said = refused(beam_joins(*table, "--timestamp-by=", "--sequence-by=", "--apply-as-deletes=", "--key", 'Total "net", EUR'))
    assert said.startswith("rows have no columns 'Total \"net\"' (--key) and 'EUR' (--key): ")
    assert 'has Order No, Cust. No, "Total ""net"", EUR", Größe, "op=x", a:b; name one of them with --key' in said


@pytest.mark.parametrize("selected", ["left.Order No", "left.Cust. No as nr", "left.Cust.No"])
def test_a_name_that_needs_quotes_in_select_is_told_so(beam_joins: Run, selected: str) -> None:
    ran = beam_joins("join", "--left", "l.jsonl", "--right", "r.jsonl", "--latest", "out.jsonl", "--select", selected)
    assert refused(ran).endswith("; a name with spaces, commas or points stands in double quotes")


def test_an_option_of_several_readers_and_writers_has_one_type_and_one_default() -> None:
    forms = dict[str, set[tuple[object, object]]]()
    for each in (*(getattr(io, name) for name in io.__all__), plain_columns):
        for option in inspect.signature(each).parameters.values():
            forms.setdefault(option.name, set()).add((option.annotation, option.default))
    # those whose values differ by what is read or written, or that one has to give
    by_class = {"format", "table", "key", "schema", "timestamp_by", "sequence_by", "emit", "records", "value"}
    assert {name for name, of_option in forms.items() if len(of_option) > 1} == by_class
    assert "apply_as_truncates" in forms
