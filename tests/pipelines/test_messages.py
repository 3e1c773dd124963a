"""What commands say of wrong options, of their inputs and of what they did: it is right, and names what to do."""

import io
import re
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from beam_joins.pipelines.changelogs.read_log import WasRead
from beam_joins.pipelines.commands import programs, slot_command
from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.engine_figures import EngineFigures, StepFigures
from beam_joins.pipelines.commands.incremental_runs import IncrementalRuns
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.report.page import page_of
from beam_joins.pipelines.commands.run_progress import Step, Watched, WatchedReport
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.commands.summary import Summary
from beam_joins.pipelines.formats.envelopes.wal2json_lines import Wal2JsonLines
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.join import JOIN
from beam_joins.pipelines.orders import ORDERS
from beam_joins.pipelines.results.counts import Tally
from beam_joins.pipelines.results.write_parts import WrittenPart
from beam_joins.pipelines.table import TABLE
from beam_joins.pipelines.yaml.__main__ import main as of_yaml
from tests.pipelines.join_run import BY, FILES, RIGHT, TEA, refused
from tests.pipelines.orders_run import Run, read_lines, run_of, write


@pytest.mark.parametrize(("commit", "shown"), [("1f2e3d4c\n", " (1f2e3d4c)"), (None, "")])
def test_the_version_names_the_commit_that_a_package_was_built_from(
    commit: str | None, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_BUILT", built := tmp_path / "commit")
    if commit is not None:
        built.write_text(commit)
    assert programs.installed_version() == f"{version('beam-joins')}{shown}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["join", "--how", "full"], "--how: 'full' is none of inner, left, right, outer, semi, anti: do you mean outer?"),
        (["join", "--how=LEFT_OUTER"], "--how: 'LEFT_OUTER' is none of inner, left, right, outer, semi, anti: do you mean outer?"),
        (["join", "--left-format=debezum"], "--left-format: 'debezum' is none of debezium, wal2json, maxwell: do you mean debezium?"),
        (["table", "--on-bad-record=ignore"], "--on-bad-record: 'ignore' is none of fail, drop: do you mean drop?"),
        (["table", "--key"], "--key: expected one argument"),
        (["joint"], "'joint' is none of join, table, run, orders, slot, state, explain, demo, sample: do you mean join?"),
        (
            ["join", *FILES, "--latest=x.jsonl", "--left-delimiter=;;"],
            "--left-delimiter: ';;' is no delimiter of CSV: give one of , ; tab |",
        ),
        (
            ["table", "--input=l.jsonl", "--latest=x.jsonl", "--encoding=hex"],
            "--encoding: 'hex' is no encoding of text: give one such as utf-8, cp1252, latin-1 or utf-16",
        ),
        (["explain", "a", "b", "--how=full"], "--how: 'full' is none of inner, left, right, outer, semi, anti: do you mean outer?"),
        (["sample", "--format=json", "--out", "o"], "--format: 'json' is none of avro, jsonl: do you mean jsonl?"),
        (["slot", "make", "postgres://h/d?slot=s"], "'make' is none of create, show, drop: do you mean create?"),
        (["slot", "create"], "the following arguments are required: ADDRESS"),
    ],
)
def test_a_wrong_choice_is_one_line_with_the_nearest_one(beam_joins: Run, arguments: list[str], sentence: str) -> None:
    assert refused(beam_joins(*arguments)) == sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["join", *FILES, "--left-delete-column", "op"],
            "--left-delete-column op: it is --left-apply-as-deletes now (see --help; Beam options keep Beam's spelling, as in "
            "--job_name)",
        ),
        (
            ["join", *FILES, "--left-deletes=d,x"],
            "--left-deletes=d,x: it is --left-apply-as-deletes=op=d,x now (see --help; Beam options keep Beam's spelling, as in "
            "--job_name)",
        ),
        (
            ["join", *FILES, "--letf-key", "id"],
            "--letf-key id: do you mean --left-key? (see --help; Beam options keep Beam's spelling, as in --job_name)",
        ),
        (["explain", "--howw", "left", "a", "b"], "--howw: do you mean --how? (see --help)"),
        (["sample", "--fromat=avro", "--out", "o"], "--fromat=avro: do you mean --format? (see --help)"),
        (["slot", "--tabels", "public.o", "create", "x"], "--tabels: do you mean --tables? (see --help)"),
        (["slot", "show", "x", "--zzz"], "--zzz (see --help)"),
        (["--versoin"], "--versoin: do you mean --version? (see --help)"),
        (
            ["table", "--num_workres=3"],
            "--num_workres=3: do you mean --num_workers? (see --help; Beam options keep Beam's spelling, as in --job_name)",
        ),
    ],
)
def test_an_unknown_option_is_one_line_with_the_nearest_one(beam_joins: Run, arguments: list[str], sentence: str) -> None:
    assert refused(beam_joins(*arguments)) == f"unknown option: {sentence}"


@pytest.mark.parametrize(
    "main", [partial(programs.main, ["table", "--max_num_workers=abc"]), partial(of_yaml, ["p.yaml", "--max_num_workers=abc"])]
)
def test_a_wrong_value_of_an_option_of_beam_is_one_line(main: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_of(lambda _: main(), capsys)()
    assert refused(ran) == "--max_num_workers: invalid int value: 'abc'"


@pytest.mark.parametrize(
    ("event", "format_"),
    [
        ('{"op": "c", "after": {"id": 1}, "source": {"lsn": 1}}', "debezium"),
        ('{"schema": {}, "payload": {"op": "c"}}', "debezium"),
        ('{"action": "I", "schema": "public", "table": "o", "columns": []}', "wal2json"),
        ('{"database": "shop", "table": "o", "type": "insert", "ts": 1, "data": {"id": 1}}', "maxwell"),
    ],
)
def test_envelopes_that_are_read_as_rows_are_told_with_their_format(beam_joins: Run, event: str, format_: str) -> None:
    Path("events.jsonl").write_text(f"{event}\n", encoding="utf-8")
    ran = beam_joins("table", "--input", "events.jsonl", "--key", "nr", "--latest", "x.jsonl")
    assert refused(ran).endswith(f"; these are events of {format_}: give --format {format_}")


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("name", ["", *programs.PROGRAMS])
def test_help_fits_the_terminal(beam_joins: Run, monkeypatch: pytest.MonkeyPatch, name: str, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = beam_joins(*filter(None, [name]), "--help").out.splitlines()
    assert len(lines) > 10
    assert max(map(len, lines)) <= int(columns)


@pytest.mark.parametrize("spec", [JOIN, TABLE, ORDERS], ids=lambda spec: spec.command)
def test_examples_of_help_are_commands_that_can_be_pasted(beam_joins: Run, monkeypatch: pytest.MonkeyPatch, spec: CommandSpec) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("nightly.toml").write_text('left-key = "sku"\n', encoding="utf-8")
    text = beam_joins(spec.command, "--help").out.replace("\\\n", "")
    commands = [line for line in text.splitlines() if line.startswith(f"  {program(spec.command)}")]
    assert len(commands) == spec.examples.count(program(spec.command)) > 2
    for command in commands:
        assert not parse(spec, shlex.split(command.removeprefix(f"  {program(spec.command)}"))).follow


def test_a_result_on_standard_output_is_told_as_such_and_a_folder_that_was_made(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", standard)
    ran = beam_joins("join", *BY, "--latest", "-", "--output", "made/changes.jsonl", "--json", "summary.json")
    standard.flush()
    assert (ran.code, standard.buffer.getvalue().count(b"\n")) == (0, 1), ran.err  # type: ignore[attr-defined]
    assert "  latest                       1  rows in the final table on standard output\n" in ran.err
    assert "  the folder made was not there: it has been made" in ran.err
    assert '"latest":{"written_records":1,"paths":["-"]}' in Path("summary.json").read_text()


@pytest.mark.parametrize(
    ("time", "said"),
    [(1, "whole numbers in us"), ("2026-03-01T09:00:00Z", "ISO 8601 text"), (None, "whole numbers in us")],
)
def test_a_dry_run_says_what_times_are(beam_joins: Run, time: object, said: str) -> None:
    write("t.jsonl", {**TEA, "updated_at": time})
    out = beam_joins("table", "--input", "t.jsonl", "--latest", "far/l.jsonl", "--dry-run").out
    assert f"    time         updated_at, {said}\n" in out
    assert "remark: the folder far was not there: a run makes it" in out
    assert not Path("far").exists()


def test_a_dry_run_says_the_types_of_times_that_files_say(beam_joins: Run) -> None:
    row, days = {name: [value] for name, value in TEA.items()}, pa.array([20_000], pa.int32())
    for name, times in {"0": pa.array([1], pa.timestamp("ms", "UTC")), "1": days.cast(pa.date32()), "2": days}.items():
        pq.write_table(pa.table({**row, "updated_at": times}), f"{name}.parquet")

    def said(files: str) -> str:
        out = beam_joins("table", "--input", files, "--timestamp-unit=s", "--dry-run").out
        return str(out.partition("    time         updated_at, ")[2].partition("\n")[0])

    assert said("0.parquet") == "timestamp[ms, tz=UTC]"
    assert said("[0-2].parquet") == "timestamp[ms, tz=UTC] or date32[day] or whole numbers in s"
    Path("1.csv").write_text("id,op,lsn,updated_at\n1,c,1,2026-03-01\n")
    Path("2.csv").write_text("id,op,lsn,updated_at\n1,c,1,20\n")
    assert (said("1.csv"), said("2.csv")) == ("ISO 8601 text", "whole numbers in s")


def test_a_delta_table_is_no_file(beam_joins: Run) -> None:
    write_deltalake("d", pa.table({"id": [1, 2], "v": ["a", "b"]}), configuration={"delta.enableChangeDataFeed": "true"})
    table = ["table", "--input=delta:d", "--key=id", "--latest=l.jsonl"]
    out = beam_joins(*table, "--dry-run").out
    assert out.startswith("would read\n  rows: table d, delta:d\n    columns      id: int64, v: string\n    key          id\n")
    assert "    sequence, time and deletes as the log says\n" in out
    assert beam_joins(*table, "--report=r.html").code == 0
    assert "<title>Table of d</title>" in Path("r.html").read_text()
    assert "  run 1 with s: 1 table\n" in beam_joins(*table, "--state-dir=s").out
    assert beam_joins(*table, "--state-dir=s").out == "no new versions: nothing to do\n"


def test_deletes_of_rows_that_are_not_there_are_counted_and_told(beam_joins: Run) -> None:
    write("l.jsonl", TEA, {**TEA, "id": 7, "op": "d", "lsn": 8}, {**TEA, "id": 1, "op": "d", "lsn": 9}, {**TEA, "op": "d", "lsn": 10})
    ran = beam_joins("table", "--input", "l.jsonl", "--output", "o.jsonl", "--json", "summary.json")
    said = "deletes that change nothing, as there is no such row before them (absent_deletes)"
    assert f"passed over\n  rows                         2  {said}" in ran.out
    assert "  rows                         4  rows in, 2 out; " in ran.out
    assert '"passed_over_records":{"absent_deletes":2}' in Path("summary.json").read_text()


def added_up(out: str, side: str) -> tuple[int, int]:
    """The records of a side that a summary says to be read, and the sum of its changes and of all records that are none; those
    that are applied late are among these.
    """
    read = re.search(rf"records in\n(?:  .*\n)*?  {side} +([0-9,]+)", out)
    changes = re.search(rf"\nengine\n(?:  .*\n)*?  {side} .* rows in, ([0-9,]+) out", out)
    assert read is not None
    assert changes is not None
    no_changes = out.partition("\ndropped\n")[2].partition("\nout\n")[0]
    others = re.findall(rf"^  {side} +([0-9,]+)  .*\((?!late_applied)\w+\)$", no_changes, re.MULTILINE)
    return int(read[1].replace(",", "")), sum(int(each.replace(",", "")) for each in (changes[1], *others))


def test_the_records_of_a_summary_add_up(beam_joins: Run, small: SampleFiles) -> None:
    rows = read_lines(small.orders)
    write("o.jsonl", *({**row, "commit": row["lsn"] // 50} for row in rows), {**rows[0], "order_id": None, "commit": 1})
    with Path("o.jsonl").open("a") as file:
        file.write('{"order_id": 1}\n[]\n')
    join = ["join", "--left=o.jsonl", f"--right={small.customers}", "--left-key=order_id", "--right-key=customer_id"]
    join += ["--foreign-key=customer_id", "--on-bad-record=drop"]
    for sequence, reasons in {"lsn": {"absent_deletes"}, "commit,lsn": {"superseded_rows"}}.items():
        right = [] if sequence == "lsn" else ["--right-sequence-by=lsn,updated_at"]
        for result in ("--output=x.jsonl", "--latest=x.jsonl"):
            out = beam_joins(*join, f"--left-sequence-by={sequence}", *right, result).out
            assert {"null_key", "duplicate_position", *reasons} <= {*re.findall(r"^  left rows .*\((\w+)\)$", out, re.MULTILINE)}
            assert added_up(out, "left rows") == (len(rows) + 3,) * 2
            read, told = added_up(out, "right rows")
            assert read == told == len(read_lines(small.customers))


def test_the_records_of_each_run_add_up_late_ones_too(beam_joins: Run, small: SampleFiles) -> None:
    Path("in").mkdir()
    rows = read_lines(small.orders)
    for number in range(3):
        write(f"in/{number}.jsonl", *rows[number::3])
        out = beam_joins("table", "--input=in", "--key=order_id", "--latest=l.jsonl", "--state-dir=s").out
        read, told = added_up(out, "rows")
        assert (read, told) == (len(rows[number::3]), read)
        assert ("(late_stale)" in out) == (number > 0)


def test_runs_say_what_they_read_in_its_own_terms(tmp_path: Path) -> None:
    file = File(path="p", bytes=1, shown="p", reader=Wal2JsonLines())
    base = ["--foreign-key", "by", "--latest", str(tmp_path / "l.jsonl"), "--state-dir", str(tmp_path / "s")]

    def came(left: str, right: str, new: dict[str, list[File]]) -> str:
        args = parse(JOIN, ["--left", left, "--right", right, *base])
        return IncrementalRuns(JOIN, args)._came(new)

    both, one = {"left rows": [file, file], "right rows": [file]}, {"left rows": [file], "right rows": []}
    address = "postgres://h/d?slot=s&table=public."
    assert came(f"{address}a", f"{address}b", both) == "2 tables"
    assert came(f"{address}a", f"{address}b", one) == "1 table"
    assert came(f"{address}a", f"{address}a", both) == "1 table"
    topic = "kafka://h:1/{}?format=debezium"
    assert came(topic.format("a"), topic.format("b"), both) == "2 topics"
    assert came(topic.format("a"), "x.jsonl", both) == "1 topic, 1 file"
    assert came("y.jsonl", "x.jsonl", both) == "3 files"
    assert came("y.jsonl", "x.jsonl", one) == "1 file"


def test_the_text_the_bars_and_the_picture_of_a_report_name_one_slowest_stage_of_reading_joining_and_writing() -> None:
    engine = EngineFigures({name: StepFigures(10, 10, 0, 1.0) for name in ("Left rows", "Right rows", "Join", "Latest")})
    steps = (Step("Left rows", ()), Step("Right rows", ()), Step("Join", ("Left rows", "Right rows")), Step("Write latest", ("Join",)))

    def page(read: float, wrote: float) -> str:
        watched = Watched(engine, (WasRead(10, read, 10, 100), WasRead(10, 0.5, 10, 100)), steps)
        tallies = [Tally("left rows", "read", 10), Tally("left rows", "rows", 10)]
        report = WatchedReport(tallies, [WrittenPart("latest", "p", 7, wrote)], [], watched)
        summary = Summary(JOIN, report, {"latest": ["p"]}, {"run": 60.0}, matches=True, title="t")
        return page_of(summary, datetime(2026, 1, 2, tzinfo=UTC))

    for read, wrote, name, box in ((50.0, 9.0, "read left rows", "Read left rows"), (5.0, 19.0, "write latest", "Write latest")):
        drawn = page(read, wrote)
        assert f"The slowest stage, {name}, took" in drawn
        marked = drawn.partition('<rect class="marked"')[2]
        assert marked.partition('class="name">')[2].startswith(box)
        for text in ("Read left rows", "Read right rows", "write latest", "read left rows"):
            assert text in drawn


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("left", "<p>3 of 4 final left rows: 1 with a null foreign key, 2 with keys of absent right rows (1 key).</p>"),
        ("right", "<p>All final left rows have a match.</p>"),
    ],
)
def test_rows_without_a_match_are_told_with_the_reason(beam_joins: Run, how: str, said: str) -> None:
    left = [{**TEA, "id": 1, "by": "b"}, *({**TEA, "id": 2 + n, "by": by} for n, by in enumerate(("x", "x", None)))]
    write("l.jsonl", *left[: 4 if how == "left" else 1])
    ran = beam_joins("join", *BY, "--how", how, "--latest=n.jsonl", "--report=r.html")
    assert said in Path("r.html").read_text()
    assert ("  3  of 4 final rows (1 with a null foreign key)" if how == "left" else "  0  of 1 final rows (0 with") in ran.out


def test_a_report_knows_the_seconds_of_writing(beam_joins: Run) -> None:
    assert beam_joins("join", *BY, "--latest", "now.jsonl", "--report", "r.html").code == 0
    assert "write latest" in Path("r.html").read_text()


def test_all_missing_columns_of_a_side_are_named_at_once_with_the_empty_form(beam_joins: Run) -> None:
    Path("o.csv").write_text("Order No,operation,seq\n1,x,2\n")
    assert refused(beam_joins("join", "--left", "o.csv", "--right", "r.jsonl", "--latest", "x.jsonl")) == (
        "left rows have no columns 'id' (--left-key), 'updated_at' (--left-timestamp-by), 'lsn' (--left-sequence-by) and 'op' "
        "(--left-apply-as-deletes): o.csv has Order No, operation, seq; name others with these options, or give "
        "--left-timestamp-by= and --left-sequence-by= and --left-apply-as-deletes= if there is none"
    )
    assert refused(beam_joins("join", *BY, "--left-apply-as-deletes=x", "--latest", "x.jsonl")).endswith(
        "; name one of them with --left-apply-as-deletes, or give --left-apply-as-deletes= if there is none"
    )


PLAIN = "id,updated_at,name\n1,1,Ann\n1,2,Bob\n"


def test_a_plain_table_is_read_without_sequence_and_deletes_with_a_remark(beam_joins: Run) -> None:
    Path("p.csv").write_text(PLAIN)
    ran = beam_joins("table", "--input", "p.csv", "--latest", "l.jsonl")
    assert (ran.code, Path("l.jsonl").read_text()) == (0, '{"id":1,"updated_at":2,"name":"Bob"}\n'), ran.err
    assert (
        "  rows have no column 'lsn' or 'op': the time orders the rows (--sequence-by=) and no row is a delete (--apply-as-deletes=)"
        in ran.out
    )


@pytest.mark.parametrize(
    ("header", "row", "options", "missing"),
    [
        ("id,updated_at,kind", "1,1,D", [], "'op' (--apply-as-deletes)"),  # which holds deletes by another name
        ("id,updated_at,isDeleted", "1,1,x", [], "'op' (--apply-as-deletes)"),
        ("id,updated_at,commit_lsn", "1,1,5", [], "'lsn' (--sequence-by) and 'op' (--apply-as-deletes)"),
        ("id,updated_at,lsn", "1,1,5", [], "'op' (--apply-as-deletes)"),
        ("id,updated_at,name", "1,1,5", ["--sequence-by=lsn"], "'lsn' (--sequence-by)"),
        ("id,updated_at,name", "1,1,5", ["--apply-as-deletes=op"], "'op' (--apply-as-deletes)"),
        ("id,updated_at,name", "1,1,5", ["--state-dir=s"], "'lsn' (--sequence-by) and 'op' (--apply-as-deletes)"),
        ("id,Last Modified", "1,x", [], "'updated_at' (--timestamp-by)"),  # which is a time by another name
        ("id,createdAt", "1,x", [], "'updated_at' (--timestamp-by)"),
        ("id,ts", "1,5", [], "'updated_at' (--timestamp-by)"),
        ("id,Geändert", "1,2026-03-01T08:00:00Z", [], "'updated_at' (--timestamp-by)"),
        ("id,name", "1,x", ["--timestamp-by=updated_at"], "'updated_at' (--timestamp-by)"),
        ("id,seq", "1,5", [], "'updated_at' (--timestamp-by), 'lsn' (--sequence-by) and 'op' (--apply-as-deletes)"),
        ("id,name", "1,x", ["--apply-as-truncates=op=t"], "'updated_at' (--timestamp-by) and 'op' (--apply-as-truncates)"),
    ],
)
def test_a_default_is_not_taken_for_nothing_where_that_could_be_wrong(
    beam_joins: Run, header: str, row: str, options: list[str], missing: str
) -> None:
    Path("p.csv").write_text(f"{header}\n{row}\n")
    assert f"{missing}: p.csv has " in refused(beam_joins("table", "--input", "p.csv", "--latest", "l.jsonl", *options))


def test_a_sequence_that_one_side_has_is_asked_of_the_other(beam_joins: Run) -> None:
    Path("p.csv").write_text(PLAIN)
    said = refused(beam_joins("join", "--left", "p.csv", "--right", "r.jsonl", "--latest", "l.jsonl"))
    assert said.startswith("left rows have no columns 'lsn' (--left-sequence-by) and 'op' (--left-apply-as-deletes): ")
    pq.write_table(pa.table({name: [value] for name, value in {**RIGHT[0], "op": True}.items()}), "r.parquet")
    said = refused(beam_joins("join", "--left", "p.csv", "--right", "r.parquet", "--latest", "l.jsonl"))
    assert said.startswith("left rows have no columns 'lsn' (--left-sequence-by) and 'op' (--left-apply-as-deletes): ")


def test_an_address_of_a_slot_without_psycopg_is_one_sentence(
    beam_joins: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rooms = ("psycopg", "beam_joins.pipelines.systems", "beam_joins.pipelines.commands.merged_result")
    for module in [name for name in sys.modules if name.startswith(rooms) and re.search("psycopg|postgres|slot_|published", name)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    address = "postgres://127.0.0.1:1/shop?slot=x"
    tables = ["--left-table", "public.o", "--right-table", "public.c"]
    of_slot = ["--left", address, "--right", address, *tables]
    to = ["--to", "postgres://127.0.0.1:1/shop?table=t"]
    for arguments in (
        ["join", *of_slot, "--latest", "x.jsonl"],
        ["join", *of_slot, "--latest", "x.jsonl", "--state-dir", "s"],
        ["join", *BY, *to, "--state-dir", "s2"],
        ["join", *BY, *to, "--state-dir", "s2", "--dry-run"],
    ):
        assert refused(beam_joins(*arguments)).startswith("PostgreSQL needs psycopg: pip install ")
    ran = run_of(slot_command.main, capsys)("create", address, "--tables", "public.o")
    assert refused(ran).startswith("PostgreSQL needs psycopg: pip install ")


def test_an_address_of_a_topic_without_confluent_kafka_is_one_sentence(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    topic = ["table", "--input", "kafka://127.0.0.1:1/t?format=debezium", "--key=id", "--latest", "x.jsonl"]
    for options in ([], ["--dry-run"], ["--state-dir", "s"]):
        assert refused(beam_joins(*topic, *options)).startswith("Kafka needs confluent-kafka: pip install ")


def test_bytes_that_are_not_utf8_are_named_by_file_line_and_column(beam_joins: Run) -> None:
    write("p.jsonl", TEA)
    with Path("p.jsonl").open("ab") as file:
        file.write(b'{"id":2,"by":"M\xfcller","op":"c","lsn":2,"updated_at":2}\n')
    said = refused(beam_joins("table", "--input", "p.jsonl", "--latest", "x.jsonl"))
    assert said.startswith(
        "rows: p.jsonl, line 2: column 'by' is not UTF-8 (byte 0xfc): write the file in UTF-8 (--on-bad-record=drop"
    )
    fields = [{"name": name, "type": "string" if isinstance(value, str) else "long"} for name, value in TEA.items()]
    text = io.BytesIO()
    fastavro.writer(text, {"type": "record", "name": "Row", "fields": fields}, [{**TEA, "by": "Mueller"}])
    Path("p.avro").write_bytes(text.getvalue().replace(b"Mueller", b"M\xfceller"))
    said = refused(beam_joins("table", "--input", "p.avro", "--latest", "x.jsonl"))
    assert said == "rows: p.avro is damaged or cut off after record 0 (not UTF-8: byte 0xfc)"


@pytest.mark.parametrize("state", [[], ["--state-dir=s"]])
def test_no_empty_sequence_is_offered_that_is_refused_beside_a_sequence_of_the_other_side(beam_joins: Run, state: list[str]) -> None:
    Path("o.csv").write_text("id,by,seq,updated_at\n1,1,2,2026-03-01\n")
    Path("c.csv").write_text("id,made at\n1,2026-03-01\n")
    options = ["join", "--left=o.csv", "--left-sequence-by=seq", "--right=c.csv", "--foreign-key=by", "--latest=x.jsonl", *state]
    options += ["--left-apply-as-deletes=", "--right-apply-as-deletes="]
    told = "--right-sequence-by= and --left-sequence-by="
    assert refused(beam_joins(*options, "--right-timestamp-by=made at")).endswith(
        f"; name one of them with --right-sequence-by, or give {told} if there is none"
    )
    if state:
        assert refused(beam_joins(*options)).endswith(f": give --right-timestamp-by='made at' with {told}")
    ran = beam_joins(*options, "--right-timestamp-by=made at", *told.split(" and "))
    assert ran.code == 0, ran.err
