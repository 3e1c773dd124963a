"""Makes the archive that ``test_command_states.py`` goes on with: ``python -m tests.pipelines.make_command_states``.

It has the states of commands after their first day. Paths of files in it begin with :data:`PLACE`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from xxhash import xxh3_64_hexdigest

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


STATES: Final = Path(__file__).parent / "states"
PLACE: Final = "/the/place/of/the/inputs"
DAYS: Final = (
    {
        "orders/1.csv": "id,customer,amount,updated_at\n1,a,5,2026-01-01T00:00:00Z\n2,b,7.5,2026-01-01T00:00:01Z\n",
        "customers/1.csv": "id,name,updated_at\na,Ann,2026-01-01T00:00:00Z\n",
    },
    {
        "orders/2.csv": "id,customer,amount,updated_at\n2,a,8,2026-01-02T00:00:00Z\n3,b,1,2026-01-02T00:00:00Z\n",
        "customers/2.csv": "id,name,updated_at\nb,Bob,2026-01-02T00:00:00Z\n",
    },
)
"""The files of two days."""
_JOIN: Final = ["join", "--left=orders", "--right=customers", "--left-key=id", "--foreign-key=customer", "--left-sequence-by="]
_ORDERED: Final = ["--right-sequence-by=", "--left-apply-as-deletes=", "--right-apply-as-deletes="]
COMMANDS: Final = {
    "lines": [*_JOIN, *_ORDERED, "--how=left", "--select=left.id, left.amount, right.name", "--changes=changes", "--latest=now.jsonl"],
    "typed": [*_JOIN, *_ORDERED, "--how=inner", "--select=left.*, right.name", "--latest=now.parquet"],
    "table": ["table", "--input=orders", "--key=id", "--sequence-by=", "--apply-as-deletes=", "--changes=changes", "--latest=now.csv"],
}

_FROM = ["join", "--left=orders", "--right=customers", "--left-key=id", "--right-key=id", "--how=left", "--latest=now.jsonl"]
_BY_STATUS = [
    "--left-apply-as-deletes=status=gone",
    "--left-apply-as-upserts=status=ok",
    "--right-apply-as-deletes=",
    "--changes=c-*.csv",
]
_IN_TIME = [
    f"--{side}-{option}" for side in ("left", "right") for option in ("sequence-by=seq", "timestamp-by=at", "timestamp-unit=ms")
]
EARLIER: Final = {
    "operations": [*_FROM, "--foreign-key=cust", "--left-schema-overrides=id:int64,amount:decimal(12,2)", *_BY_STATUS, *_IN_TIME],
    "events": [*_FROM, "--foreign-key=cid", "--left-format=debezium", "--right-format=debezium", "--left-unavailable-value=__gone"],
    "feed": ["table", "--input=in", "--key=id", "--latest=now.parquet", "--sequence-by=commit,lsn", "--ignored=op=update_preimage"],
}
"""Commands whose states an earlier version has written with options and columns of other names: ``--left-delete-column=status
--left-deletes=gone``, ``--left-schema``, ``--sequence='commit, lsn'``. These states cannot be made any more.
"""
DAYS_OF_EARLIER: Final = {
    "operations": (
        {
            "orders/1.csv": "id;cust;amount;status;seq;at\n1;a;5.10;ok;1;1800000000001\n2;b;7.50;ok;2;1800000000002\n",
            "customers/1.csv": "id,name,seq,at\na,Ann,0,1800000000000\n",
        },
        {
            "orders/2.csv": "id;cust;amount;status;seq;at\n2;b;7.50;gone;4;1800000000004\n3;b;1.25;ok;5;1800000000005\n",
            "customers/2.csv": "id,name,seq,at\nb,Bob,3,1800000000003\n",
        },
    ),
    "events": (
        {
            "orders/1.jsonl": _events("orders", (10, "c", {"id": 1, "cid": 7, "amount": "five"}), (12, "c", {"id": 2, "cid": 8})),
            "customers/1.jsonl": _events("customers", (11, "c", {"id": 7, "name": "Ann"})),
        },
        {
            "orders/2.jsonl": _events("orders", (20, "u", {"id": 1, "cid": 8, "amount": "__gone"}), (22, "d", {"id": 2})),
            "customers/2.jsonl": _events("customers", (21, "c", {"id": 8, "name": "Bob"})),
        },
    ),
    "feed": (
        {"in/1.jsonl": _rows((1, "insert", 1, 0, 2), (2, "insert", 2, 0, 4), (3, "insert", 3, 0, 6))},
        {"in/2.jsonl": _rows((2, "update_preimage", 5, 1, 4), (2, "update_postimage", 5, 2, 44), (3, "delete", 6, 3, 9))},
    ),
}


def write(day: int, folder: Path, days: Days = DAYS) -> None:
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


def run(command: Sequence[str], folder: Path) -> None:
    """Run a command with its state in a folder."""
    subprocess.run([sys.executable, "-m", "beam_joins.pipelines", *command, "--state-dir=state"], cwd=folder, check=True)


if __name__ == "__main__":
    states = Path(tempfile.mkdtemp())
    for name, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made).resolve()
            write(0, folder)
            run(command, folder)
            moved(folder / "state", str(folder), PLACE)
            shutil.move(folder / "state", states / name)
    archive(states, STATES / f"format_{FORMAT}.zip")
