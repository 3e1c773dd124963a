"""python -m pipelines.orders: changes in the envelopes of the tools that capture them."""

import datetime as dt
import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import TableToChanges
from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents
from beam_joins.pipelines.changelogs.changelog_files import look_into
from beam_joins.pipelines.changelogs.inspected_changelog import Changelog
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.formats.changelog_columns import enveloped
from beam_joins.pipelines.formats.envelopes.debezium_files import DebeziumLines
from beam_joins.pipelines.formats.envelopes.debezium_json import DebeziumJson
from beam_joins.pipelines.formats.envelopes.maxwell import Maxwell
from beam_joins.pipelines.formats.envelopes.row_change import RowChange
from beam_joins.pipelines.formats.envelopes.wal2json import Wal2Json
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.tables.key_handover import Life
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import Run, dropped_in, numbers, one_sentence, read_lines

OUTPUTS = ("--output", "e.jsonl", "--latest", "l.jsonl")
Lines = Iterable[Any]


def wal_place(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def split(row: Row) -> tuple[Row, str, int, int]:
    """The row, and its operation, place and time."""
    return {name: value for name, value in row.items() if name not in ("op", "lsn")}, row["op"], row["lsn"], row["updated_at"]


def debezium(rows: list[Row], table: str, key: str) -> Lines:
    for row in rows:
        value, op, lsn, time = split(row)
        source = {
            "connector": "postgresql",
            "ts_ms": time // 1_000,
            "ts_us": time,
            "db": "shop",
            "schema": "public",
            "table": table,
            "lsn": lsn,
        }
        sides = {"before": value, "after": None} if op == "d" else {"before": None, "after": value}
        yield {**sides, "source": {**source, "sequence": json.dumps([None, str(lsn)])}, "op": op, "ts_ms": time // 1_000 + 7}
        if op == "d":
            yield None


def debezium_with_schema(rows: list[Row], table: str, key: str) -> Lines:
    return ({"schema": {"type": "struct", "fields": []}, "payload": event} for event in debezium(rows, table, key))


def unwrapped(rows: list[Row], table: str, key: str) -> Lines:
    for row in rows:
        value, op, lsn, time = split(row)
        yield {
            **value,
            "__deleted": str(op == "d").lower(),
            "__op": op,
            "__source_lsn": lsn,
            "__source_ts_ms": time // 1_000,
            "__table": table,
        }


def wal2json_1(rows: list[Row], table: str, key: str) -> Lines:
    for row in rows:
        value, op, lsn, time = split(row)
        change: Row = {"kind": "delete" if op == "d" else "insert", "schema": "public", "table": table, "pk": {"pknames": [key]}}
        if op == "d":
            change["oldkeys"] = {"keynames": [key], "keytypes": ["integer"], "keyvalues": [row[key]]}
        else:
            change |= {"columnnames": list(value), "columntypes": [], "columnvalues": list(value.values())}
        other = {"kind": "insert", "schema": "public", "table": "other", "columnnames": ["id"], "columnvalues": [1]}
        yield {"xid": lsn, "nextlsn": wal_place(lsn), "timestamp": iso(time), "change": [change, other]}


def wal2json_2(rows: list[Row], table: str, key: str) -> Lines:
    for row in rows:
        value, op, lsn, time = split(row)
        yield {"action": "B", "xid": lsn, "timestamp": iso(time), "lsn": wal_place(lsn - 1), "nextlsn": wal_place(lsn)}
        of = {
            "schema": "public",
            "table": table,
            "timestamp": iso(time),
            "lsn": wal_place(lsn - 1),
            "pk": [{"name": key, "type": "integer"}],
        }
        columns = [{"name": name, "type": "?", "value": each} for name, each in value.items()]
        identity = [{"name": key, "type": "integer", "value": row[key]}]
        yield (
            {"action": "D", **of, "identity": identity}
            if op == "d"
            else {"action": "U", **of, "columns": columns, "identity": identity}
        )
        yield {"action": "C", "xid": lsn, "timestamp": iso(time), "lsn": wal_place(lsn - 1), "nextlsn": wal_place(lsn)}


def maxwell(rows: list[Row], table: str, key: str) -> Lines:
    for row in rows:
        value, op, lsn, time = split(row)
        of = {
            "database": "shop",
            "table": table,
            "ts": time // 1_000_000,
            "position": f"binlog.000000:{lsn}",
            "primary_key_columns": [key],
        }
        yield {**of, "type": "delete" if op == "d" else "insert", "data": value}
    yield {"type": "table-alter", "database": "shop", "table": table, "def": {}}


def iso(time: int) -> str:
    return str(dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=time))


FORMATS: dict[str, tuple[str, Callable[..., Lines], int]] = {
    "debezium": ("debezium", debezium, 1),
    "debezium with schema": ("debezium", debezium_with_schema, 1),
    "debezium, unwrapped": ("debezium", unwrapped, 1_000),
    "wal2json 1": ("wal2json", wal2json_1, 1),
    "wal2json 2": ("wal2json", wal2json_2, 1),
    "maxwell": ("maxwell", maxwell, 1_000_000),
}
"""The format's option, the lines that it has for rows, and the microseconds in the unit of its times."""
CUTS = (0, 101_000, 102_000, 10**9)
"""Where a history is cut into runs, by its sequence."""
SAYS_KEY = ("wal2json 1", "wal2json 2", "maxwell")


@pytest.mark.slow
def test_rows_in_envelopes_give_what_the_same_rows_give_by_themselves(
    run: Run, small: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_joins.pipelines.changelogs.inspected_changelog.PART_BYTES", 50_001)
    plain = run("--orders", small.orders, "--customers", small.customers, "--output", "plain.jsonl", "--latest", "rows.jsonl")
    assert plain.code == 0, plain.err
    keys = {"orders": "order_id", "customers": "customer_id"}
    for name, (option, lines_of, unit) in FORMATS.items():
        inputs = []
        for side, path in (("orders", small.orders), ("customers", small.customers)):
            lines = map(json.dumps, lines_of(read_lines(path), side, keys[side]))
            Path(f"{side}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
            inputs += [f"--{side}", f"{side}.jsonl.gz", f"--{side}-format", option, f"--{side}-table", side]
            inputs += [] if name in SAYS_KEY else [f"--{side}-key", keys[side]]
        expected = [sorted(map(json.dumps, rows_of(path, unit))) for path in ("plain.jsonl", "rows.jsonl")]
        ran = run(*inputs, *OUTPUTS)
        assert ran.code == 0, (name, ran.err)
        assert [sorted(map(json.dumps, rows_of(path, 1))) for path in ("e.jsonl", "l.jsonl")] == expected, name


@pytest.mark.slow
def test_runs_that_go_on_over_files_of_envelopes_give_together_what_one_run_gives(run: Run, small: SampleFiles) -> None:
    options = [f"--{side}-format=wal2json" for side in ("orders", "customers")]
    for side, path, key in (("orders", small.orders, "order_id"), ("customers", small.customers, "customer_id")):
        Path("in", side).mkdir(parents=True)
        options += [f"--{side}", f"in/{side}"]
        history = sorted(read_lines(path), key=lambda row: row["lsn"])
        for n in range(3):
            part = [row for row in history if CUTS[n] <= row["lsn"] < CUTS[n + 1]]
            lines = map(json.dumps, wal2json_2(part, side, key))
            Path(f"{side}-{n}").write_text("".join(f"{line}\n" for line in lines))
    for n in range(3):
        for side in ("orders", "customers"):
            Path(f"{side}-{n}").rename(f"in/{side}/{n}.jsonl")
        ran = run(*options, "--state-dir", "state", "--changes", "changes", "--latest", "latest.jsonl")
        assert ran.code == 0, ran.err
    whole = run(*options, "--state-dir", "other", "--changes", "whole", "--latest", "whole.jsonl")
    assert whole.code == 0, whole.err
    in_runs = [path.read_bytes() for path in sorted(Path("changes").iterdir())]
    assert len(in_runs) == 3
    assert all(in_runs)
    assert b"".join(in_runs) == b"".join(path.read_bytes() for path in Path("whole").iterdir())
    assert sorted(Path("latest.jsonl").read_bytes().splitlines()) == sorted(Path("whole.jsonl").read_bytes().splitlines())


def rows_of(path: str, unit: int) -> list[Row]:
    """What a file has, with times cut to the unit."""
    rows = read_lines(Path(path))
    for row in rows:
        if "timestamp" in row:
            row["timestamp"] = row["timestamp"] // unit * unit
    return rows


def changes(envelope: Any, *lines: Any) -> list[RowChange]:
    made = [change for line in lines for change in envelope.changes(json.dumps(line).encode())]
    for change in made:
        if isinstance(change, str):
            raise ValueError(change)
    return made


def test_a_column_of_the_schema_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"op": "c", "after": {"id": 1, "amount": 2}, "source": SOURCE}) + "\n")
    columns = pa.schema([("id", pa.int64()), ("amuont", pa.int64())])
    with pytest.raises(ValueError, match="orders have no column 'amuont' .schema=.: .* has .*id, amount"):
        _ = beam.Pipeline() | ReadChangeEvents(str(path), format="debezium", table="orders", key="id", schema=columns)


@pytest.mark.slow
@pytest.mark.parametrize("text", ['{"action":"D","identity":[{"name":"id","type":"integer","value":1}]', '{"action":"T"'])
def test_a_file_of_a_later_run_may_hold_nothing_but_deletes_by_key(tmp_path: Path, beam_joins: Run, text: str) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    (tmp_path / "in").mkdir()
    place = ',"schema":"public","table":"orders","timestamp":"2026-01-01 00:00:00+00","lsn":"0/%s"'
    whole = '[{"name":"id","type":"integer","value":1},{"name":"amount","type":"integer","value":2}]'
    commit = '{"action":"C","timestamp":"2026-01-01 00:00:00+00","lsn":"0/%s","nextlsn":"0/%s"}'
    columns = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
    for run, line in enumerate(['{"action":"I","columns":' + whole, text], 1):
        end = (f"{run}8", f"{run}9")
        lines = [commit.replace("C", "B", 1) % end, line + place % f"{run}0" + "}", commit % end]
        (tmp_path / "in" / f"{run}.jsonl").write_text("\n".join(lines) + "\n")
        with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner", f"--beam_joins_state={state}"])) as pipeline:
            table = pipeline | ReadChangeEvents(f"{tmp_path}/in/*", format="wal2json", table="orders", key="id", schema=columns)
            _ = table | TableToChanges() | beam.Map(repr) | beam.io.WriteToText(str(out / str(run)))
        options = [
            "--format",
            "wal2json",
            "--key",
            "id",
            "--select",
            "id, amount",
            "--state-dir",
            "of command",
            "--latest",
            "now.jsonl",
        ]
        ran = beam_joins("table", "--input", str(tmp_path / "in"), *options)
        assert ran.code == 0, ran.err
    assert [len(read.read_text().splitlines()) for read in sorted(out.iterdir())] == [1, 1]
    assert Path("now.jsonl").read_text() == ""


PLACE = {"timestamp": "2026-01-01 00:00:00+00", "nextlsn": "0/10"}
SOURCE = {"ts_ms": 5, "schema": "public", "table": "orders", "lsn": 8}


def test_a_row_that_gets_another_primary_key_leaves_the_old_one() -> None:
    one = {
        "kind": "update",
        "table": "orders",
        "columnnames": ["id", "n"],
        "columnvalues": [2, 1.50],
        "oldkeys": {"keynames": ["id"], "keyvalues": [1]},
    }
    same = {**one, "columnvalues": [1, 1.5]}
    actual = changes(Wal2Json(("id",)), {**PLACE, "change": [one, same]})
    assert [(change.operation, change.row) for change in actual] == [
        ("d", b'{"id":1}'),
        ("i", b'{"id":2,"n":1.5}'),
        ("u", b'{"id":1,"n":1.5}'),
    ]
    row = {"type": "update", "table": "orders", "position": "b.1:7", "data": {"id": 2}, "old": {"id": 1}}
    assert [change[1:3] for change in changes(Maxwell(("id",)), row, {**row, "old": {"n": 1}})] == [
        ("d", b'{"id":1}'),
        ("i", b'{"id": 2}'),
        ("u", b'{"id": 2}'),
    ]


def test_a_row_that_gets_another_key_than_that_of_the_log_leaves_the_old_one_if_the_log_has_it() -> None:
    old, new = {"id": 1, "mail": "a", "n": 1}, {"id": 1, "mail": "b", "n": 1}
    moved = {"op": "u", "before": old, "after": new, "source": SOURCE}
    by_mail = [(change.operation, json.loads(change.row)) for change in changes(DebeziumJson(("mail",)), moved)]
    assert by_mail == [("d", {"mail": "a"}), ("i", new)]
    assert [change.operation for change in changes(DebeziumJson(("id",)), moved)] == ["u"]
    assert [change.operation for change in changes(DebeziumJson(("mail",)), {**moved, "before": None})] == ["u"], "it does not say"
    columns = {"kind": "update", "table": "t", "columnnames": [*new], "columnvalues": [*new.values()], "pk": {"pknames": ["id"]}}
    whole = {**columns, "oldkeys": {"keynames": [*old], "keyvalues": [*old.values()]}}
    by_mail = [(change.operation, json.loads(change.row)) for change in changes(Wal2Json(("mail",)), {**PLACE, "change": [whole]})]
    assert by_mail == [("d", {"mail": "a"}), ("i", new)]
    with pytest.raises(ValueError, match="the primary key id without the old mail, so that the row may have left another key"):
        changes(Wal2Json(("mail",)), {**PLACE, "change": [{**columns, "oldkeys": {"keynames": ["id"], "keyvalues": [1]}}]})


def test_a_change_that_nothing_but_its_line_orders_may_be_sent_twice(tmp_path: Path) -> None:
    created = {"id": 1, "n": 2, "__op": "c", "__source_ts_ms": 5}
    lines = [created, created, {**created, "__op": "d", "__deleted": "true"}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = {**SOURCE, "lsn": 7}
    (tmp_path / "whole.jsonl").write_text("".join(json.dumps({"op": "c", "after": {"id": n}, "source": table}) + "\n" for n in (1, 2)))
    for name, come in (("log", [True, True, False]), ("whole", [True, True])):
        path = tmp_path / f"{name}.jsonl"
        file = File(path=str(path), bytes=path.stat().st_size, shown=name, reader=DebeziumLines())
        (marked,) = DebeziumLines().marked(Part(0, file, 0, file.bytes))
        lives = [Life.of(json.loads(text)["(life)"]) for text in marked.texts]
        assert [life.arrives for life in lives] == come
        assert {life.again for life in lives if life.arrives} == {name == "log"}


def test_changes_of_a_transaction_have_one_position_and_an_order_within_it() -> None:
    begin = {"action": "B", **PLACE, "lsn": "0/1"}
    inserts = [
        {"action": "I", "table": "t", "lsn": f"0/{n}", "timestamp": PLACE["timestamp"], "columns": [{"name": "id", "value": n}]}
        for n in (2, 3)
    ]
    actual = changes(Wal2Json(), begin, *inserts, {"action": "C", **PLACE})
    assert [(change.position, change.order) for change in actual] == [(16, 2 << 8), (16, 3 << 8)]
    events = [{"op": "c", "after": {"id": n}, "source": {**SOURCE, "lsn": n, "sequence": f'["7","{n}"]'}} for n in (9, 8)]
    assert [(change.position, change.order) for change in changes(DebeziumJson(), *events)] == [(7, 9), (7, 8)]
    rows = [
        {"op": "c", "after": {}, "source": {"file": "binlog.000002", "pos": 5, "row": n, "gtid": gtid}}
        for n, gtid in ((0, None), (1, "a-b:12"))
    ]
    assert [(change.position, change.order) for change in changes(DebeziumJson(), *rows)] == [
        ((2 << 40) + 5, 0),
        ((1 << 62) + 12, (5 << 20) + 1),
    ]


def test_numbers_keep_all_their_digits() -> None:
    line = b'{"op":"c","after":{"id":1,"n":12345678901234567890.1234567890},"source":{"lsn":1,"ts_ms":1}}'
    (change,) = DebeziumJson().changes(line)
    assert change.row == b'{"id":1,"n":12345678901234567890.1234567890}'


def test_a_truncate_empties_its_table(run: Run) -> None:
    def event(op: str, lsn: int, after: Any = None) -> str:
        return json.dumps({"op": op, "after": after, "source": {**SOURCE, "lsn": lsn}}) + "\n"

    order, other = ({"order_id": n, "customer_id": 1, "amount": n} for n in (1, 2))
    Path("o.jsonl").write_text(event("c", 1, order) + event("c", 2, other) + event("t", 4) + event("c", 5, other))
    Path("c.jsonl").write_text(event("c", 3, {"customer_id": 1}))
    options = [f"--{side}-format=debezium" for side in ("orders", "customers")] + [
        "--orders-key=order_id",
        "--customers-key=customer_id",
    ]
    ran = run("--orders", "o.jsonl", "--customers", "c.jsonl", *options, *OUTPUTS)
    assert ran.code == 0, ran.err
    changes = [(change["key"], change["op"], change["position"]) for change in read_lines(Path("e.jsonl"))]
    assert sorted(changes, key=lambda change: (change[0], change[2])) == [
        *((1, "insert", 3), (1, "delete", 4)),
        *((2, "insert", 3), (2, "delete", 4), (2, "insert", 5)),
    ]
    assert [row["order_id"] for row in read_lines(Path("l.jsonl"))] == [2]
    assert not dropped_in(numbers(ran.out))


BAD: dict[str, tuple[str, Any]] = {
    "an event of operation 'd' without its row": ("debezium", {"op": "d", "before": None, "source": SOURCE}),
    "an event of the unknown operation 'x'": ("debezium", {"op": "x", "source": SOURCE}),
    "no Debezium event": ("debezium", {"id": 1}),
    "none of lsn, pos, commit_lsn, scn, ord and commit_ts": ("debezium", {"op": "c", "after": {"id": 1}, "source": {"ts_ms": 1}}),
    "not JSON: Input data was truncated": ("debezium", "{"),
    "no line of wal2json": ("wal2json", {"id": 1}),
    "read the slot with include-lsn": (
        "wal2json",
        {"change": [{"kind": "insert", "table": "t", "columnnames": ["id"], "columnvalues": [1]}]},
    ),
    "a change without its row": ("wal2json", {**PLACE, "change": [{"kind": "delete", "table": "t"}]}),
    "output_binlog_position": ("maxwell", {"type": "insert", "table": "t", "data": {"id": 1}}),
    "no envelope of this format: Object missing required field": ("maxwell", {"id": 1}),
    "a row that is no object": ("maxwell", {"type": "insert", "table": "t", "position": "b.1:1", "data": 7}),
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_line_that_is_none_of_the_format_is_a_bad_record_with_its_place(run: Run, sentence: str) -> None:
    option, line = BAD[sentence]
    good = {"op": "c", "after": {"order_id": 1, "customer_id": 1}, "source": SOURCE}
    lines = [json.dumps({**good, "source": SOURCE})] if option == "debezium" else []
    Path("o.jsonl").write_text("\n".join([*lines, line if isinstance(line, str) else json.dumps(line)]) + "\n")
    Path("c.jsonl").write_text(json.dumps({"op": "c", "after": {"customer_id": 1}, "source": SOURCE}) + "\n")
    options = ["--orders", "o.jsonl", "--orders-format", option, "--orders-key", "order_id"]
    options += ["--customers", "c.jsonl", "--customers-format", "debezium", "--customers-key", "customer_id", *OUTPUTS]
    message = one_sentence(run(*options))
    assert sentence in message
    assert f"o.jsonl, line {1 + len(lines)}:" in message
    ran = run(*options, "--on-bad-record=drop")
    assert ran.code == 0, ran.err
    assert dropped_in(numbers(ran.out)) == {("orders", "bad_record"): 1}


def test_options_that_do_not_fit_together_are_refused(run: Run, small: SampleFiles) -> None:
    files = ["--orders", str(small.orders), "--customers", str(small.customers), *OUTPUTS]
    assert "--orders-sequence-by is not for --orders-format=maxwell" in one_sentence(
        run(*files, "--orders-format=maxwell", "--orders-sequence-by=lsn")
    )
    assert "--customers-table is for files of envelopes" in one_sentence(run(*files, "--customers-table=c"))
    assert "no change says which columns are its primary key" in one_sentence(run(*files, "--orders-format=debezium"))


def an_event(table: str, key: int = 1, **marks: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": table, "lsn": key, "ts_ms": 5}
    return {"before": None, "after": {"id": key}, "source": source, "op": "c", "ts_ms": 5, **marks}


def looked_into(*events: Any, table: str, look_bytes: int = 0, is_known: bool = False) -> Changelog:
    path = Path("events.jsonl").absolute()
    path.write_text("".join(each if isinstance(each, str) else f"{json.dumps(each)}\n" for each in events))
    file = File(path=str(path), bytes=path.stat().st_size, shown=path.name, reader=DebeziumLines(), table=table, key=("id",))
    return look_into("rows", (replace(file, look_bytes=look_bytes),), enveloped(""), is_known=is_known)


@pytest.mark.parametrize(
    ("tables", "listed"),
    [
        (["orders_1", "orders_2"], "public.orders_1, public.orders_2; name one"),
        ([f"t{n:02}" for n in range(13)], "public.t08, public.t09 and 3 more; name one"),
    ],
)
def test_a_table_that_no_event_is_of_is_refused_with_the_tables_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: list[str], listed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    looked = looked_into(*map(an_event, tables), table="public.orders")
    with pytest.raises(InputError, match="rows: no event is of the table public.orders: there are those of public") as refused:
        looked.require_table()
    assert listed in str(refused.value)


def test_a_table_without_an_event_is_not_missing_where_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert looked_into(an_event("orders"), table="orders").absent == ""
    assert looked_into('{"ts_ms":5}\n', table="orders").absent == ""
    assert looked_into(table="orders").absent == ""
    assert looked_into(an_event("others"), table="orders", is_known=True).absent == ""
    of_another = looked_into(an_event("others"), "{broken\n", table="orders")
    assert of_another.absent == ""
    assert "events.jsonl has events that cannot be used" in of_another.evidence.doubt
    beginning = looked_into(*(an_event("others", n) for n in range(9)), an_event("orders"), table="orders", look_bytes=900)
    assert beginning.absent == ""
    assert "only the beginning of each file was looked at" in beginning.evidence.doubt


def test_partitions_that_a_pattern_means_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    events = an_event("orders_1", 1), an_event("orders_2", 2), an_event("customers", 3)
    looked = looked_into(*events, table="public.orders_*")
    assert [row["id"] for row in looked.first] == [1, 2]
    assert looked.evidence.whole is not None
    assert looked.evidence.whole.names == ["id"]


def test_a_row_without_envelope_may_have_a_column_op() -> None:
    flat = {"id": 1, "op": "c", "__op": "d", "__lsn": 3, "__source_ts_ms": 5, "__deleted": "true"}
    (change,) = changes(DebeziumJson(), flat)
    assert (change.operation, json.loads(change.row)) == ("d", {"id": 1, "op": "c"})


@pytest.mark.parametrize(
    "line",
    [
        an_event("t", after={"a.t.Value": {"id": 1}}),
        an_event("t", ts_ms={"long": 5}),
        an_event("t", op={"string": "c"}),
        an_event("t", source={"connector": "mysql", "table": "t", "ts_ms": 5, "snapshot": {"string": "true"}}),
    ],
)
def test_the_json_of_avro_with_types_in_it_is_refused_as_what_it_is(line: Any) -> None:
    with pytest.raises(ValueError, match="Avro's own JSON"):
        changes(DebeziumJson(), line)


def test_events_whose_added_fields_have_other_names_are_refused_with_those_that_are_looked_for() -> None:
    with pytest.raises(ValueError, match=r"no __source_ts_ms, .*__op or __deleted and __lsn .* read it without format"):
        changes(DebeziumJson(), {"id": 1, "cdc_OP": "c", "cdc_LSN": 10})
