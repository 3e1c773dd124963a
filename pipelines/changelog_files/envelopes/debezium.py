"""What Debezium's events say, whole and unwrapped (ExtractNewRecordState), whatever they are written in.

Changes of a PostgreSQL transaction have one position, the commit before theirs (``source.sequence``); without it the position is the log sequence number, a global
transaction identifier's number or the place in MySQL's binary log.
"""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.envelopes.row_change import (
    DELETE,
    NO_ROW,
    TRUNCATE,
    UPSERT,
    RowChange,
    full_name,
    in_binary_log,
    is_meant,
)

NULL: Final = b"null"
TRANSACTION, HEARTBEAT, MESSAGE = "transaction_metadata", "heartbeat", "message"
"""What is about no row."""
_PLACEHOLDER: Final = b"__debezium_unavailable_value"
_UNAVAILABLE: Final = re.compile(rb'"(?:%b|%b|%b)"' % (_PLACEHOLDER, b64encode(_PLACEHOLDER), _PLACEHOLDER.hex().encode()))
_TOMBSTONES_ALONE: Final = (
    "a tombstone among unwrapped events without __deleted: it is the only sign of a delete and does not say of which row: let the connector's"
    " ExtractNewRecordState rewrite deletes (delete.tombstone.handling.mode=rewrite)"
)
_FULL: Final = "set the table's REPLICA IDENTITY to FULL"
_OPERATIONS: Final[Mapping[str, str]] = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE}
_GTIDS: Final = 1 << 62
"""The rows of a snapshot have no such identifier, but a place in the binary log: they come before all that have one."""
_ABOUT: Final = ("op", "deleted", "table", "db", "schema", "ts_ms", "ts_us", "ts_ns", "lsn", "sequence", "gtid", "file", "pos", "row")
MARKS: Final = frozenset(f"__{prefix}{name}" for prefix in ("", "source_") for name in _ABOUT)
"""The columns that an unwrapped event may have about itself."""
_BOUNDS: Final = ("BEGIN", "END")


class Source(msgspec.Struct):
    """Where a change is from."""

    ts_ms: int | None = None
    ts_us: int | None = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    lsn: int | None = None
    sequence: str | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None


class Debezium:
    """Understands events; a row that gets another primary key comes as a delete and an insert by itself."""

    def __init__(self, table: str) -> None:
        self._table = table
        self.skipped: Counter[str] = Counter()
        self._has_tombstones = self._unmarked = False

    def tombstone(self) -> None:
        """Pass over what follows a delete in a topic. Raises ValueError where there is no other sign of deletes."""
        self._has_tombstones = True
        self._require_deletes()

    def _require_deletes(self) -> None:
        if self._has_tombstones and self._unmarked:
            raise ValueError(_TOMBSTONES_ALONE)

    def about_no_row(self, names: Mapping[str, Any], status: Any) -> str | None:
        """What an event without operation is, if it is about no row: the bounds of a transaction, a heartbeat."""
        if status in _BOUNDS and "id" in names and names.keys() <= {"status", "id", "ts_ms", "event_count", "data_collections"}:
            return TRANSACTION
        return HEARTBEAT if names.keys() == {"ts_ms"} else None

    def is_meant(self, source: Source | None) -> bool:
        """Whether an event is of the table that is asked for; raises ValueError if it does not say where it is from."""
        if source is None:
            raise ValueError("an event without its source")
        return is_meant(self._table, source.schema or source.db, source.table)

    def operation(self, said: str) -> str:
        """What it does to the row, or to all rows. Raises ValueError for one that is not known."""
        operation = _OPERATIONS.get(said)
        if operation is None:
            raise ValueError(f"an event of the unknown operation {said!r}")
        return operation

    def change(self, said: str, source: Source, sent: int | None, row: bytes, types: pa.Schema | None) -> RowChange:
        """The change of an event: its operation, the time when it was sent, and the row that it is about."""
        operation = _OPERATIONS[said]
        if operation == TRUNCATE:
            row, types = NO_ROW, None
        elif row == NULL:
            raise ValueError(f"an event of operation {said!r} without its row: {_FULL}")
        _require_available(operation, row)
        position, order = _place(source)
        time = source.ts_us if source.ts_us is not None else (source.ts_ms or sent or 0) * 1_000
        return RowChange(full_name(source.schema or source.db, source.table), operation, row, time, position, order, types=types)

    def unwrapped(self, marks: Mapping[str, Any], row: bytes, types: pa.Schema | None) -> Iterator[RowChange]:
        """The change of an unwrapped event, given its marks without underscores, and its row.

        Without a place in the log its position is its time, and of one time that which comes later in the file is the later one.
        """
        if "deleted" not in marks:
            self._unmarked = True
            self._require_deletes()
        table = str(marks.get("table") or "")
        schema = marks.get("schema") or marks.get("db")
        if self._table and (not table or ("." in self._table and schema is None)):
            raise ValueError(
                "an unwrapped event says at most __table, and the schema if add.fields has source.schema: name the table so, or name none if the files"
                " have one alone"
            )
        if not is_meant(self._table, schema, table):
            return
        operation = DELETE if str(marks.get("deleted")).lower() == "true" else self.operation(marks.get("op") or "u")
        source = msgspec.convert(
            {name: marks.get(name) for name in ("ts_ms", "ts_us", "lsn", "sequence", "gtid", "file", "pos", "row")}, Source
        )
        if source.ts_ms is None and source.ts_us is None:
            raise ValueError("no Debezium event: it has no op, and no __source_ts_ms as unwrapped events can have")
        _require_available(operation, row)
        time = source.ts_us if source.ts_us is not None else (source.ts_ms or 0) * 1_000
        position, order = (time, None) if source.lsn is None and source.pos is None else _place(source)
        yield RowChange(full_name(schema, table), operation, row, time, position, order, types=types)


def marks_in(members: Mapping[str, Any]) -> dict[str, Any]:
    """The marks among the columns of an unwrapped event, without underscores; those of its source come first.

    >>> marks_in({"id": 1, "__op": "c", "__ts_ms": 9, "__source_ts_ms": 5})
    {'op': 'c', 'ts_ms': 5}
    """
    marks = {name: members[name] for name in members if name in MARKS}
    plain = {name[2:]: value for name, value in marks.items() if not name.startswith("__source_")}
    return plain | {name[9:]: value for name, value in marks.items() if name.startswith("__source_")}


def _require_available(operation: str, row: bytes) -> None:
    if operation == UPSERT and _UNAVAILABLE.search(row):
        raise ValueError(f"an event that leaves a large value out as it has not changed: {_FULL}")


def _place(source: Source) -> tuple[int, int]:
    """The position of a transaction, and the order of a change within it."""
    if source.lsn is not None:
        sequence = msgspec.json.decode(source.sequence, type=tuple[str | None, ...]) if source.sequence else ()
        committed = sequence[0] if sequence else None
        return (source.lsn, 0) if committed is None else (int(committed), source.lsn)
    if source.pos is not None:
        place = in_binary_log(source.file, source.pos)
        if source.gtid is not None:
            return _GTIDS + int(source.gtid.rpartition(":")[2]), (source.pos << 20) + (source.row or 0)
        return place, source.row or 0
    raise ValueError("an event whose source has neither lsn nor pos, so that nothing orders it")
