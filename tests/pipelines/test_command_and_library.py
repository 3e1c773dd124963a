"""A command and a Python user read the same changes with the same options, from each format."""

import datetime as dt
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins import Change, TableToChanges
from beam_joins.io import ReadChangeEvents, ReadChangelog
from beam_joins.pipelines.formats.changelog_columns import micros_of
from beam_joins.pipelines.formats.types.exact_json import dumps_line, loads
from tests.hostile.changelogs import WRITTEN
from tests.pipelines.orders_run import Run

ROWS = [
    {"order_id": n % 4, "customer_id": 7, "amount": n + 0.25, "status": "paid", "op": op, "lsn": n + 1, "updated_at": 10 * n}
    for n, op in enumerate("ccccuuduudcr")
]
PLAIN = {"key": "order_id", "timestamp_by": "updated_at", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d", "delete"]}}
MADE: list[Change[Any, Any]] = []


class Case(NamedTuple):
    """A file, and the same options of both."""

    name: str
    content: bytes
    command: Sequence[str]
    python: dict[str, Any]
    columns: Sequence[str] = ()
    """About the change, which rows of a command do not have."""


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def of_format(name: str, write: Callable[[list[Any]], bytes]) -> Case:
    format_ = name.split(".")[0]
    if format_ in ("orders", "zstd"):
        options = ["--key=order_id", "--timestamp-by=updated_at", "--sequence-by=lsn", "--apply-as-deletes=op=d,delete"]
        return Case(name, write(ROWS), options, PLAIN, ("op", "lsn"))
    envelopes: dict[str, Any] = {"format": format_, "key": "order_id", "table": "orders"}
    return Case(name, write(ROWS), [f"--format={format_}", "--key=order_id", "--table=orders"], envelopes)


AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901)
DAY, NOON = dt.date(2026, 1, 2), "2026-01-02T12:00:00"
CASES = {
    **{f"format {name}": of_format(name, write) for name, write in WRITTEN.items()},
    "times in ISO 8601": Case(
        "a.jsonl",
        lines(*({"id": n, "at": at} for n, at in enumerate([f"{NOON}Z", f"{NOON}+02:00", NOON, "2026-01-02", f"{NOON}.5Z"]))),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
    "milliseconds": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1_767_000_000_123}, {"id": 1, "at": 1_767_000_000_124, "v": 1}),
        ["--key=id", "--timestamp-by=at", "--timestamp-unit=ms", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at", "timestamp_unit": "ms"},
    ),
    "times of columns": Case(
        "a.parquet",
        parquet(id=pa.array([1, 2]), at=pa.array([AT, AT], pa.timestamp("us")), day=pa.array([DAY, DAY]), lsn=pa.array([1, 2])),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn"},
        ("lsn",),
    ),
    "dates that order": Case(
        "a.parquet",
        parquet(id=pa.array([1, 1]), day=pa.array([DAY, DAY + dt.timedelta(1)])),
        ["--key=id", "--timestamp-by=day", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "day"},
    ),
    "words for deletes, for upserts and for no change": Case(
        "a.jsonl",
        lines(*({"id": 1, "at": n, "op": op, "v": n} for n, op in enumerate(["NEW", "OLD", "GONE", "New", "u"]))),
        [
            "--key=id",
            "--timestamp-by=at",
            "--sequence-by=",
            "--apply-as-deletes=op=gone",
            "--apply-as-upserts=op=new,u",
            "--ignored=op=old",
        ],
        {
            **{"key": "id", "timestamp_by": "at", "apply_as_deletes": {"op": ["gone"]}, "apply_as_upserts": {"op": ["new", "u"]}},
            "ignored": {"op": ["old"]},
        },
        ("op",),
    ),
    "a time that marks deletes": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1, "gone": None}, {"id": 1, "at": 2, "gone": "2026-01-02"}, {"id": 2, "at": 3}),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=gone=not-null"],
        {"key": "id", "timestamp_by": "at", "apply_as_deletes": {"gone": ["not-null"]}},
        ("gone",),
    ),
    "truth values that mark deletes": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1, "gone": False}, {"id": 1, "at": 2, "gone": True}),
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=gone"],
        {"key": "id", "timestamp_by": "at", "apply_as_deletes": "gone"},
        ("gone",),
    ),
    "CSV with its delimiter and encoding": Case(
        "a.csv",
        'id;at;lsn;name\r\n1;5;1;Müller\r\n2;6;2;\r\n1;7;3;"a;b"\r\n'.encode("latin-1"),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes=", "--encoding=latin-1"],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn", "encoding": "latin-1"},
        ("lsn",),
    ),
    "keys and sequences of several columns": Case(
        "a.jsonl",
        lines(*({"shop": "a", "nr": n % 2, "at": 5, "commit": n // 2, "lsn": n, "v": n} for n in range(6))),
        ["--key=shop,nr", "--timestamp-by=at", "--sequence-by=commit,lsn", "--apply-as-deletes="],
        {"key": ["shop", "nr"], "timestamp_by": "at", "sequence_by": ["commit", "lsn"]},
        ("commit", "lsn"),
    ),
    "records that nothing orders": Case(
        "a.jsonl",
        lines(*({"id": 1, "at": 5, "lsn": 7, "op": op, "v": n} for n, op in enumerate("cdu"))),
        ["--key=id", "--timestamp-by=at", "--sequence-by=lsn", "--apply-as-deletes=op=d"],
        {"key": "id", "timestamp_by": "at", "sequence_by": "lsn", "apply_as_deletes": {"op": ["d"]}},
        ("op", "lsn"),
    ),
    "numbers of many digits": Case(
        "a.jsonl",
        b'{"id": 1, "at": 1, "n": 9007199254740993.25, "m": 123456789012345678901234, "x": 1.50}\n{"id":2,"at":2,"n":1e-7}\n',
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes="],
        {"key": "id", "timestamp_by": "at"},
    ),
    "bad records and null keys": Case(
        "a.jsonl",
        lines({"id": 1, "at": 1}, {"id": None, "at": 2}, {"at": 3}, {"id": 2, "at": "soon"}, {"id": 3}) + b"[1]\nx\n",
        ["--key=id", "--timestamp-by=at", "--sequence-by=", "--apply-as-deletes=", "--on-bad-record=drop"],
        {"key": "id", "timestamp_by": "at", "on_bad_record": "drop"},
    ),
}


def keep(change: Change[Any, Any]) -> None:
    MADE.append(change)


def changes_of(case: Case, schema: Any) -> list[Change[Any, Any]]:
    MADE.clear()
    is_events = "format" in case.python
    reader: Any = ReadChangeEvents if is_events else ReadChangelog
    omitted = {} if is_events else {"except_columns": case.columns}
    with beam.Pipeline() as pipeline:
        _ = pipeline | reader(case.name, **case.python, **omitted, schema=schema) | TableToChanges() | beam.Map(keep)
    return list(MADE)


def as_json(value: Any) -> Any:
    """A value as a command writes it in JSON lines."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, dt.datetime):
        return micros_of(value)
    return value.isoformat() if isinstance(value, dt.date) else float(value) if isinstance(value, Decimal) else value


def text(*parts: Any) -> str:
    return dumps_line(as_json({str(n): part for n, part in enumerate(parts)})).decode()


@pytest.mark.parametrize("name", CASES)
def test_a_command_and_a_python_user_read_the_same_changes(beam_joins: Run, name: str) -> None:
    case = CASES[name]
    Path(case.name).write_bytes(case.content)
    ran = beam_joins("table", f"--input={case.name}", *case.command, "--output=out.jsonl")
    assert ran.code == 0, ran.err
    written = [loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    expected = sorted(
        text(
            tuple(key.values()) if isinstance(key := each["key"], dict) else key,
            each["old"],
            each["new"],
            each["timestamp"],
            each["position"],
        )
        for each in written
    )
    assert expected
    made = changes_of(case, None)
    assert sorted(text(*change) for change in made) == expected


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.name.endswith((".parquet", ".arrow"))])
def test_the_columns_of_files_have_the_same_types_for_a_command_and_for_a_python_user(beam_joins: Run, name: str) -> None:
    case = CASES[name]
    Path(case.name).write_bytes(case.content)
    ran = beam_joins("table", f"--input={case.name}", *case.command, "--latest=out.parquet")
    assert ran.code == 0, ran.err
    expected = sorted(pq.read_table("out.parquet").to_pylist(), key=str)
    last = {change.key: change.new for change in sorted(changes_of(case, "declared"), key=lambda change: change.position)}
    assert sorted((row for row in last.values() if row is not None), key=str) == expected
