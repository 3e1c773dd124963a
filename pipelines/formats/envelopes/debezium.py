"""Interprets Debezium's events, whole or unwrapped (ExtractNewRecordState), in any serialization.

What of an event's source gives its position is in :mod:`beam_joins.pipelines.formats.envelopes.log_places`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.elements.iso_times import NO_TIME
from beam_joins.pipelines.formats.changelog_columns import WITHIN
from beam_joins.pipelines.formats.envelopes.debezium_placeholders import Placeholders
from beam_joins.pipelines.formats.envelopes.log_places import Place, Source, place_of
from beam_joins.pipelines.formats.envelopes.row_change import (
    DELETE,
    INSERT,
    NO_ROW,
    TRUNCATE,
    UPSERT,
    WHOLE_ROWS,
    RowChange,
    content,
    full_name,
    is_meant,
    key_left,
    require_whole,
)
from beam_joins.pipelines.formats.envelopes.statements import emptied_by

NULL: Final = b"null"
TRANSACTION, HEARTBEAT, MESSAGE, SCHEMA_CHANGE = "transaction_metadata", "heartbeat", "message", "schema_change"
"""The kinds of events about no row."""
OTHER_KEY: Final = "tombstone_of_another_key"
"""The kind of a tombstone whose key does not have the columns of the table's key."""
_TOMBSTONES_ALONE: Final = (
    "a tombstone among unwrapped events without __deleted: it is the only sign of a delete and does not say of which "
    "row, as its key is not known: let the connector's"
    " ExtractNewRecordState rewrite deletes (delete.tombstone.handling.mode=rewrite)"
)
_NO_EVENT: Final = (
    "no Debezium event: it has no op, and no __source_ts_ms, __source_ts_us or __ts_ms as unwrapped events have (with "
    "__op or __deleted and __lsn or others of add.fields): if these have other names, read it without format, and name "
    "the columns of operation, sequence and time"
)
_POST_IMAGES: Final = (
    "run MongoDB's connector with capture.mode=change_streams_update_full_with_pre_image and "
    "capture.mode.full.update.type=post_image: a lookup finds no document that is deleted by then"
)
_PRE_IMAGES: Final = "run MongoDB's connector with capture.mode=change_streams_update_full_with_pre_image"
_OPERATIONS: Final[Mapping[str, str]] = {"c": INSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE}
_PLACED_BY: Final = ("lsn", "pos", "commit_lsn", "scn", "ord", "commit_ts")
_ABOUT: Final = ("op", "deleted", "ts_ns", *Source.__struct_fields__)
MARKS: Final = frozenset(f"__{prefix}{name}" for prefix in ("", "source_") for name in _ABOUT)
"""The columns that an unwrapped event may have about itself."""
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FILLED: Final = frozenset({NULL, b"0", b"0.0", b'""', b"false", b"[]", b"{}"})
"""The values with which the connector fills the columns of an old row that the log does not have."""
_BOUNDS: Final = ("BEGIN", "END")


class Debezium:
    """Interprets events; a changed primary key arrives as a delete and an insert, and another ``key`` as an update,
    whose old row tells it.
    """

    def __init__(self, table: str, placeholders: Iterable[str] = (), key: tuple[str, ...] = ()) -> None:
        self._table, self._key = table, tuple(name.partition(WITHIN)[0] for name in key)
        self.placeholders = Placeholders(placeholders)
        self.skipped: Counter[str] = Counter()
        self._has_tombstones = self._unmarked = self._has_old_rows = False
        self._tables: set[str] = set()

    def tombstone(self) -> None:
        """Skips the tombstone that follows a delete in a topic.

        Raises ValueError where there is no other sign of deletes.
        """
        self._has_tombstones = True
        self._require_deletes()

    def is_of_another_key(self, source: Source, row: bytes) -> bool:
        """Whether a delete was made of a tombstone whose key lacks columns of the table's; such deletes are counted."""
        if is_other := bool(source.of_tombstone and self._lacking(row)):
            self.skipped[OTHER_KEY] += 1
        return is_other

    def _lacking(self, row: bytes) -> list[str]:
        """The columns of the key that a row does not have."""
        members = _MEMBERS.decode(row)
        return [name for name in self._key if bytes(members.get(name, NULL)) == NULL]

    def _require_deletes(self) -> None:
        if self._has_tombstones and self._unmarked:
            raise ValueError(_TOMBSTONES_ALONE)

    def about_no_row(self, names: Mapping[str, Any], status: Any) -> str | None:
        """The kind of an event without an operation that is about no row: a transaction's boundary, a
        heartbeat, a schema change.
        """
        if status in _BOUNDS and "id" in names and names.keys() <= {"status", "id", "ts_ms", "event_count", "data_collections"}:
            return TRANSACTION
        if "databaseName" in names and ("ddl" in names or "tableChanges" in names):
            return SCHEMA_CHANGE
        return HEARTBEAT if names.keys() == {"ts_ms"} else None

    def is_meant(self, source: Source | None) -> bool:
        """Whether an event is of the table that is asked for; raises ValueError if it does not say where it
        is from.
        """
        if source is None:
            raise ValueError("an event without its source")
        table = source.table or source.collection
        if meant := is_meant(self._table, source.database, table):
            self._tables.add(full_name(source.database, table))
        return meant

    def schema_change(self, statement: str, source: Source | None) -> Iterator[RowChange]:
        """The truncate by a statement that empties or drops the table; nothing for other statements.

        Raises ValueError for one that moves rows to another table, or from one.
        """
        if source is None or source.is_snapshot:
            return
        yield from emptied_by(statement, source.database, self._table, self._tables, lambda table: self._emptied(table, source))

    def _emptied(self, table: str, source: Source) -> RowChange:
        time = source.ts_us or (source.ts_ms or 0) * 1_000
        return RowChange(table, TRUNCATE, NO_ROW, time, **place_of(source)._asdict())

    def operation(self, code: object) -> str:
        """The operation of a code: an upsert, a delete or a truncate. Raises ValueError for an unknown code."""
        operation = _OPERATIONS.get(code) if isinstance(code, str) else None
        if operation is None:
            raise ValueError(f"an event of the unknown operation {code!r}")
        return operation

    def change(
        self, code: str, source: Source, sent: int | None, row: bytes, types: pa.Schema | None, unchanged: tuple[str, ...] = ()
    ) -> RowChange:
        """The change of an event: its operation, the time when it was sent, the row that it is about, and the
        columns that this does not have as they did not change.
        """
        operation = _OPERATIONS[code]
        if operation == TRUNCATE:
            row, types = NO_ROW, None
        elif row == NULL:
            images = _PRE_IMAGES if operation == DELETE else _POST_IMAGES
            remedy = images if source.collection is not None else WHOLE_ROWS
            raise ValueError(f"an event of operation {code!r} without its row: {remedy}")
        if operation == INSERT:  # of an update that has changed the primary key
            require_whole(unchanged, WHOLE_ROWS)
        place = place_of(source)
        is_timed = (source.ts_us, source.ts_ms, sent) != (None, None, None)
        time = source.ts_us or (source.ts_ms or sent or 0) * 1_000 if is_timed else NO_TIME
        table = full_name(source.database, source.table or source.collection)
        return RowChange(table, operation, row, time, types=types, unchanged=unchanged, **place._asdict())

    def with_old_row(self, change: RowChange, old: bytes | None) -> Iterator[RowChange]:
        """The change with what its row was and is, and before an update the delete of the key that its row had in
        the ``old`` row, a JSON text as that of the change.
        """
        if change.operation == DELETE:
            yield self._leaving(change._replace(before=self._content(change.row)))
        elif change.operation == INSERT:
            yield change._replace(after=content(change.row), alone=True)
        elif old is None or old == NULL or change.operation == TRUNCATE:
            yield change
        else:
            if before := self._content(old):
                change = change._replace(before=before, after=content(change.row))
            if (left := key_left(old, change.row, self._key)) is None:
                yield change
                return
            require_whole(change.unchanged, WHOLE_ROWS)
            yield self._leaving(change._replace(operation=DELETE, row=left, types=None, after=""))
            yield change._replace(operation=INSERT, before="")

    def _leaving(self, change: RowChange) -> RowChange:
        """The delete; raises ValueError for one of an old row without its key, where no other old row was whole."""
        lacking = self._lacking(change.row)
        self._has_old_rows |= bool(change.before and not lacking)
        if lacking and not self._has_old_rows:
            raise ValueError(f"an old row that has its primary key alone, and no {', '.join(lacking)}: {WHOLE_ROWS}")
        return change

    def _content(self, old: bytes) -> str:
        """The content of an old row; empty for a row that may have no more than its key: the connector fills such a
        row with nulls, and with zeros and empty texts where the columns may not be null.
        """
        members = _MEMBERS.decode(old)
        is_whole = self._key and any(bytes(value) not in _FILLED for name, value in members.items() if name not in self._key)
        return content(old) if is_whole else ""

    def unwrapped(
        self, marks: Mapping[str, Any], row: bytes, types: pa.Schema | None, unchanged: tuple[str, ...] = ()
    ) -> Iterator[RowChange]:
        """The change of an unwrapped event, given its marks without underscores, its row, and the columns
        that this does not have as they did not change.

        Without a place in the log its position is its time, and of two events of one time the later one in the
        file is the later one.
        """
        if "deleted" not in marks:
            self._unmarked = True
            self._require_deletes()
        table = str(marks.get("table") or "")
        schema = marks.get("schema") or marks.get("db")
        if self._table and (not table or ("." in self._table and schema is None)):
            raise ValueError(
                "an unwrapped event says at most __table, and the schema if add.fields has source.schema: name the "
                "table so, or name none if the files"
                " have one alone"
            )
        if not is_meant(self._table, schema, table):
            return
        operation = DELETE if is_deleted(marks) else self.operation(marks.get("op") or "u")
        source = msgspec.convert({name: marks[name] for name in Source.__struct_fields__ if name in marks}, Source, strict=False)
        if source.ts_ms is None and source.ts_us is None:
            raise ValueError(_NO_EVENT)
        if self.is_of_another_key(source, row):
            return
        if operation == INSERT:
            require_whole(unchanged, WHOLE_ROWS)
        unchanged = unchanged if operation == UPSERT else ()
        time = source.ts_us if source.ts_us is not None else (source.ts_ms or 0) * 1_000
        placed = any(getattr(source, name) is not None for name in _PLACED_BY)
        if not placed and (empty := [f"__{name}" for name in _PLACED_BY if name in marks]):
            raise ValueError(f"an event whose {' and '.join(empty)} is null, so that nothing orders it among those that have one")
        place = place_of(source) if placed else Place(time, None)
        table = full_name(schema, table)
        change = RowChange(table, operation, row, time, types=types, unchanged=unchanged, **place._asdict())
        yield from self.with_old_row(change, None)


def is_deleted(marks: Mapping[str, Any]) -> bool:
    """Whether the marks of an unwrapped event say that its row is deleted, as a boolean or as text.

    >>> is_deleted({"deleted": "true"}), is_deleted({"deleted": False}), is_deleted({})
    (True, False, False)
    """
    return str(marks.get("deleted")).lower() == "true"


def marks_in(members: Mapping[str, Any]) -> dict[str, Any]:
    """The marks among the columns of an unwrapped event, without underscores; those of its source come first.

    >>> marks_in({"id": 1, "__op": "c", "__ts_ms": 9, "__source_ts_ms": 5})
    {'op': 'c', 'ts_ms': 5}
    """
    marks = {name: members[name] for name in members if name in MARKS}
    plain = {name[2:]: value for name, value in marks.items() if not name.startswith("__source_")}
    return plain | {name[9:]: value for name, value in marks.items() if name.startswith("__source_")}
