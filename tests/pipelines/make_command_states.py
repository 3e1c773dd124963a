"""Makes the archive that ``test_command_states.py`` goes on with: ``python -m tests.pipelines.make_command_states``.

It has the states of commands and programs after their first day. Paths of files in it begin with :data:`PLACE`.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from xxhash import xxh3_64_hexdigest

from beam_joins.io import ReadChangeEvents, ReadChangelog, ReadSnapshots, WriteChangelog
from beam_joins.transforms.engine.resumed.manifest import FORMAT
from tests.kept_states import archive

Days: TypeAlias = Sequence[Mapping[str, str]]


def _events(table: str, *events: tuple[int, str, dict[str, Any]]) -> str:
    """Debezium's events, each at its place in PostgreSQL's log."""
    source = {"connector": "postgresql", "name": "s", "db": "d", "schema": "public", "table": table, "snapshot": "false"}
    return "".join(
        json.dumps(
            {
                "op": op,
                **dict.fromkeys(("before", "after")),
                "before" if op == "d" else "after": row,
                "ts_ms": 1_800_000_000_000 + lsn,
                "source": {**source, "lsn": lsn, "txId": lsn, "ts_ms": 1_800_000_000_000 + lsn},
            }
        )
        + "\n"
        for lsn, op, row in events
    )


def _rows(*rows: tuple[int, str, int, int, int]) -> str:
    """The rows of a change feed."""
    names = "id", "op", "commit", "lsn", "v"
    return "".join(json.dumps({**dict(zip(names, row, strict=True)), "updated_at": row[2]}) + "\n" for row in rows)


def _transaction(number: int, *changes: tuple[str, dict[str, Any]]) -> str:
    """The messages of wal2json, format 2, of a transaction."""
    at = {"xid": number, "timestamp": f"2026-01-01 00:00:00.{number:06d}+00", "lsn": f"0/{number:X}"}
    messages: list[dict[str, Any]] = [{"action": "B", **at, "nextlsn": f"0/{number + 1:X}"}]
    for action, row in changes:
        columns = [{"name": name, "type": "?", "value": each} for name, each in row.items()]
        message = {"action": action, **at, "schema": "public", "table": "orders", "pk": [{"name": "id", "type": "integer"}]}
        message |= {} if action == "D" else {"columns": columns}
        messages.append(message | ({} if action == "I" else {"identity": columns[:1]}))
    return "".join(json.dumps(each) + "\n" for each in [*messages, {"action": "C", **at, "nextlsn": f"0/{number + 1:X}"}])


STATES: Final = Path(__file__).parent / "states"
PLACE: Final = "/the/place/of/the/inputs"
_ORDERS: Final = (
    {
        "orders/1.csv": "id,customer,amount,updated_at\n1,a,5,2026-01-01T00:00:00Z\n2,b,7.5,2026-01-01T00:00:01Z\n",
        "customers/1.csv": "id,name,updated_at\na,Ann,2026-01-01T00:00:00Z\n",
    },
    {
        "orders/2.csv": "id,customer,amount,updated_at\n2,a,8,2026-01-02T00:00:00Z\n3,b,1,2026-01-02T00:00:00Z\n",
        "customers/2.csv": "id,name,updated_at\nb,Bob,2026-01-02T00:00:00Z\n",
    },
)
_OPERATIONS: Final = (
    {
        "orders/1.csv": "id;cust;amount;status;seq;at\n1;a;5.10;ok;1;1800000000001\n2;b;7.50;ok;2;1800000000002\n",
        "customers/1.csv": "id,name,seq,at\na,Ann,0,1800000000000\n",
    },
    {
        "orders/2.csv": "id;cust;amount;status;seq;at\n2;b;7.50;gone;4;1800000000004\n3;b;1.25;ok;5;1800000000005\n",
        "customers/2.csv": "id,name,seq,at\nb,Bob,3,1800000000003\n",
    },
)
_EVENTS: Final = (
    {
        "orders/1.jsonl": _events("orders", (10, "c", {"id": 1, "cid": 7, "amount": "five"}), (12, "c", {"id": 2, "cid": 8})),
        "customers/1.jsonl": _events("customers", (11, "c", {"id": 7, "name": "Ann"})),
    },
    {
        "orders/2.jsonl": _events("orders", (20, "u", {"id": 1, "cid": 8, "amount": "__gone"}), (22, "d", {"id": 2})),
        "customers/2.jsonl": _events("customers", (21, "c", {"id": 8, "name": "Bob"})),
    },
)
_LOG: Final = (
    {"log/1.jsonl": _transaction(10, ("I", {"id": 1, "amount": 5}), ("I", {"id": 2, "amount": 7}))},
    {"log/2.jsonl": _transaction(20, ("U", {"id": 1, "amount": 8})) + _transaction(22, ("D", {"id": 2}))},
)
_FEED: Final = (
    {"in/1.jsonl": _rows((1, "insert", 1, 0, 2), (2, "insert", 2, 0, 4), (3, "insert", 3, 0, 6))},
    {"in/2.jsonl": _rows((2, "update_preimage", 5, 1, 4), (2, "update_postimage", 5, 2, 44), (3, "delete", 6, 3, 9))},
)
_OF_CUSTOMERS: Final = (
    {
        "orders/1.jsonl": '{"order_id":1,"customer_id":7,"amount":5,"updated_at":1}\n'
        '{"order_id":2,"customer_id":7,"amount":1,"updated_at":2}\n',
        "customers/1.jsonl": '{"customer_id":7,"name":"Ann","updated_at":1}\n',
    },
    {
        "orders/2.jsonl": '{"order_id":2,"customer_id":7,"amount":3,"updated_at":3}\n',
        "customers/2.jsonl": '{"customer_id":7,"name":"Anna","updated_at":3}\n',
    },
)
_NESTED: Final = (
    {"in/1.jsonl": '{"order":{"id":1},"v":1,"at":1}\n{"order":{"id":2},"v":2,"at":2}\n'},
    {"in/2.jsonl": '{"order":{"id":2},"v":3,"at":3}\n'},
)
_EXPORTS: Final = (
    {"in/2026-03-01.csv": "id,v\n1,a\n2,b\n3,c\n"},
    {"in/2026-03-02.csv": "id,v\n3,c\n1,x\n4,d\n"},
)
DAYS: Final[Mapping[str, Days]] = {
    **dict.fromkeys(("lines", "typed", "table"), _ORDERS),
    **dict.fromkeys(("debezium", "events", "program of events"), _EVENTS),
    **dict.fromkeys(("feed", "feed in lines", "program of a feed"), _FEED),
    **dict.fromkeys(("snapshots", "program of snapshots"), _EXPORTS),
    "at least": _OF_CUSTOMERS,
    "nested keys": _NESTED,
    "operations": _OPERATIONS,
    "wal2json": _LOG,
}
"""The files of two days, for each command and program."""
_JOIN: Final = ["join", "--left=orders", "--right=customers"]
_UNORDERED: Final = [
    "--left-key=id",
    "--foreign-key=customer",
    *(f"--{side}-{option}=" for side in ("left", "right") for option in ("sequence-by", "apply-as-deletes")),
]
_DEBEZIUM: Final = ["--left-format=debezium", "--right-format=debezium", "--left-unavailable-value=__gone"]
_FEED_OF: Final = ["table", "--input=in", "--key=id", "--sequence-by=commit,lsn", "--ignored=op=update_preimage"]
_WITHOUT_SEQUENCES: Final = [
    "--orders-sequence-by=",
    "--customers-sequence-by=",
    "--orders-apply-as-deletes=",
    "--customers-apply-as-deletes=",
]
COMMANDS: Final = {
    "lines": [
        *_JOIN,
        *_UNORDERED,
        "--how=left",
        "--select=left.id, left.amount, right.name",
        "--changes=changes",
        "--latest=now.jsonl",
    ],
    "typed": [*_JOIN, *_UNORDERED, "--how=inner", "--select=left.*, right.name", "--latest=now.parquet"],
    "table": ["table", "--input=orders", "--key=id", "--sequence-by=", "--apply-as-deletes=", "--changes=changes", "--latest=now.csv"],
    "debezium": [*_JOIN, *_DEBEZIUM, "--left-key=id", "--right-key=id", "--foreign-key=cid", "--how=left", "--latest=now.jsonl"],
    "wal2json": ["table", "--input=log", "--format=wal2json", "--table=orders", "--select=id, amount", "--latest=now.parquet"],
    "feed in lines": [*_FEED_OF, "--latest=now.jsonl"],
    "snapshots": ["table", "--snapshots=in", "--timestamp-in-path=%Y-%m-%d", "--latest=now.jsonl"],
    "at least": ["orders", "--orders=orders", "--customers=customers", *_WITHOUT_SEQUENCES, "--min-amount=2", "--latest=now.jsonl"],
}
_ORDER: Final = pa.schema({"id": pa.int64(), "cid": pa.int64(), "amount": pa.string()})
_OF_AN_ORDER: Final = pa.schema({"order": pa.struct({"id": pa.int64()}), "v": pa.int64(), "at": pa.int64()})
PROGRAMS: Final[Mapping[str, Callable[[], Any]]] = {
    "program of events": lambda: ReadChangeEvents("orders/*.jsonl", format="debezium", table="orders", key="id", schema=_ORDER),
    "program of a feed": lambda: ReadChangelog(
        "in/*.jsonl",
        key="id",
        schema="inferred",
        timestamp_by="updated_at",
        sequence_by=["commit", "lsn"],
        ignored={"op": ["update_preimage"]},
    ),
    "program of snapshots": lambda: ReadSnapshots("in/*.csv", key="id", timestamp_in_path="%Y-%m-%d"),
    "nested keys": lambda: ReadChangelog("in/*.jsonl", key="order.id", schema=_OF_AN_ORDER, timestamp_by="at", sequence_by="at"),
}
_FROM: Final = [*_JOIN, "--left-key=id", "--right-key=id", "--how=left", "--latest=now.jsonl"]
_BY_STATUS: Final = [
    "--left-apply-as-deletes=status=gone",
    "--left-apply-as-upserts=status=ok",
    "--right-apply-as-deletes=",
    "--changes=c-*.csv",
]
_IN_TIME: Final = [
    f"--{side}-{option}" for side in ("left", "right") for option in ("sequence-by=seq", "timestamp-by=at", "timestamp-unit=ms")
]
EARLIER: Final = {
    "operations": [*_FROM, "--foreign-key=cust", "--left-schema-overrides=id:int64,amount:decimal(12,2)", *_BY_STATUS, *_IN_TIME],
    "events": [*_FROM, "--foreign-key=cid", *_DEBEZIUM],
    "feed": [*_FEED_OF, "--latest=now.parquet"],
}
"""Commands whose states an earlier version has written with options and columns of other names: ``--left-delete-column=status
--left-deletes=gone``, ``--left-schema``, ``--sequence='commit, lsn'``. These states cannot be made any more.
"""


def write(day: int, folder: Path, days: Days) -> None:
    """Write the files of a day."""
    for name, text in days[day].items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_800_000_000 + day, 1_800_000_000 + day))


def moved(state: Path, one: str, other: str) -> None:
    """Have the paths in a manifest begin otherwise."""
    path = state / "manifest.json"
    content = json.loads(path.read_text().replace(one, other))
    del content["xxh3"]
    path.write_text(json.dumps({**content, "xxh3": xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode())}, indent=1))


def run_program(name: str, state: str) -> None:
    """Run a program in this folder."""
    with beam.Pipeline(options=PipelineOptions([f"--beam_joins_state={state}"])) as pipeline:
        _ = pipeline | "Read" >> PROGRAMS[name]() | "Write" >> WriteChangelog("now.jsonl", records="rows")


def _run(name: str) -> None:
    if name in PROGRAMS:
        run_program(name, "state")
    else:
        subprocess.run([sys.executable, "-m", "beam_joins.pipelines", *COMMANDS[name], "--state-dir=state"], check=True)


if __name__ == "__main__":
    states = Path(tempfile.mkdtemp())
    for name in (*COMMANDS, *PROGRAMS):
        with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
            folder = Path(made).resolve()
            write(0, folder, DAYS[name])
            _run(name)
            moved(folder / "state", str(folder), PLACE)
            shutil.move(folder / "state", states / name.replace(" ", "_"))
    archive(states, STATES / f"format_{FORMAT}.zip")
