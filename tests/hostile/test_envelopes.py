"""Events of which one part is missing or of another kind: rows, or one sentence in plain words."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import PBegin

from beam_joins.errors import InputError
from beam_joins.io import ReadChangeEvents

MISSING = object()
VALUES = [MISSING, True, 10**30, "x", "1:2:3", [1], {"a": 1}]
BARE = re.compile(r"invalid literal|object (is|has)|has no attribute|not supported between|unhashable|\n|<class|KeyError")


def event(after: Any = None, **source: Any) -> dict[str, Any]:
    row = {"id": 1, "n": 2} if after is None else after
    return {"op": "u", "before": None, "after": row, "source": {"table": "t", "db": "d", "ts_ms": 5, **source}, "ts_ms": 6}


def described(fields: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    after = {"field": "after", "type": "struct", "optional": True, "fields": fields}
    return {"schema": {"type": "struct", "fields": [after]}, "payload": event(row, connector="postgresql", lsn=7)}


DECIMAL = {"field": "d", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
LOOSE = {
    "field": "l",
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}],
}
DAYS = {"field": "t", "type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}}
AT = {"timestamp": "2026-01-01 00:00:00+00", "xid": 3}
EVENTS: dict[str, tuple[Any, list[Any]]] = {
    "postgresql": ("debezium", [event(connector="postgresql", schema="s", lsn=7, txId=3, sequence='["6","7"]')]),
    "mysql": ("debezium", [event(connector="mysql", file="bin.000001", pos=4, row=0, gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:23")]),
    "mariadb": ("debezium", [event(connector="mariadb", file="bin.000001", pos=4, row=0, gtid="0-1-100")]),
    "sqlserver": (
        "debezium",
        [event(connector="sqlserver", commit_lsn="00000027:00000ac0:0002", change_lsn="00000027:00000ac0:0001", event_serial_no=1)],
    ),
    "oracle": ("debezium", [event(connector="oracle", scn="1", commit_scn="2", ssn=1)]),
    "mongodb": ("debezium", [event('{"_id": 1, "id": 1}', connector="mongodb", collection="t", ord=1)]),
    "unwrapped": ("debezium", [{"id": 1, "__deleted": "false", "__op": "u", "__lsn": 7, "__source_ts_ms": 5, "__table": "t"}]),
    "with a schema": (
        "debezium",
        [described([DECIMAL, LOOSE, DAYS], {"id": 1, "d": "AQ==", "l": {"scale": 1, "value": "AQ=="}, "t": [1]})],
    ),
    "maxwell": (
        "maxwell",
        [
            {
                **{"database": "d", "table": "t", "type": "update", "ts": 5, "xid": 3, "commit": True, "position": "bin.000001:4"},
                **{"data": {"id": 1, "n": 2}, "old": {"n": 1}, "primary_key_columns": ["id"]},
            }
        ],
    ),
    "wal2json": (
        "wal2json",
        [
            {"action": "B", "lsn": "0/1", "nextlsn": "0/9", **AT},
            {
                "action": "I",
                "schema": "s",
                "table": "t",
                "lsn": "0/2",
                "columns": [{"name": "id", "type": "integer", "value": 1}],
                **AT,
            },
            {"action": "C", "lsn": "0/9", "nextlsn": "0/9", **AT},
        ],
    ),
    "wal2json, format 1": (
        "wal2json",
        [
            {
                **{"lsn": "0/1", "nextlsn": "0/9", **AT},
                "change": [
                    {
                        **{"kind": "insert", "schema": "s", "table": "t", "columnnames": ["id"], "columntypes": ["integer"]},
                        "columnvalues": [1],
                    },
                ],
            }
        ],
    ),
}


def places(part: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where parts are within a value."""
    if at[1:]:
        yield at
    for name in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
        yield from places(part[name], (*at, name))


def changed(events: list[Any], at: tuple[Any, ...], value: Any) -> list[Any]:
    whole = copy.deepcopy(events)
    part: Any = whole
    for name in at[:-1]:
        part = part[name]
    if value is MISSING:
        del part[at[-1]]
    else:
        part[at[-1]] = value
    return whole


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_with_one_wrong_part_is_rows_or_one_sentence_in_plain_words(name: str, tmp_path: Path) -> None:
    envelope, events = EVENTS[name]
    path, begin = tmp_path / "a.jsonl", PBegin(beam.Pipeline())

    def read(lines: list[Any]) -> int:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        table = ReadChangeEvents(str(path), format=envelope, key="id", schema=None)
        rows: Any = table._of_run(begin).rows
        rows._read.start_bundle()
        return sum(1 for part in rows._parts for _ in rows._read.process(part))

    assert read(events) == 1
    for at in places(events):
        for value in VALUES:
            try:
                read(changed(events, at, value))
            except InputError as error:
                assert not BARE.search(str(error)), (at, value, str(error))
