"""Writes a table as records of a file: its changes as upserts with tombstones, as Debezium's pairs of old and
new row, or as those of the command line; or its rows.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.columns.positions import times_or_null
from beam_joins.columns.sorting import integers, valid
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.keys.nested import stored_keys
from beam_joins.pipelines.formats.arrow import opened
from beam_joins.pipelines.formats.file_format import BytesWriter
from beam_joins.pipelines.formats.registry import Format, file_format
from beam_joins.pipelines.formats.row_encoding import change_columns, columns_of_changes, fitted, json_changes
from beam_joins.pipelines.formats.types.exact_json import dumps_line
from beam_joins.pipelines.formats.types.json_text import joined
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.connect.runs import StateFolder
from beam_joins.transforms.connect.tables import PlainRows, begins_anew

As = Literal["upserts", "pairs", "changes", "rows"]
Made = As | Literal["table"]
"""Beside these the changes of a table for a writer that merges them: key, new row and position."""
MARKS: Final = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("position", pa.int64()), ("deleted", pa.bool_())])
"""The columns of upserts about the change."""
_SOURCE: Final = pa.struct(
    [
        ("connector", pa.string()),
        ("table", pa.string()),
        ("lsn", pa.int64()),
        ("sequence", pa.string()),
        ("ts_ms", pa.int64()),
        ("ts_us", pa.int64()),
    ]
)
_TRUNCATE: Final = "truncate"
_MILLI: Final = 1_000
_ROWS: Final = 1 << 16


class Anew(NamedTuple):
    """How a table begins anew: the position at which its rows replace those of earlier runs, the largest event time of these
    (:data:`~beam_joins.elements.iso_times.NO_TIME`: none has one), and the number of the run.
    """

    position: int
    time: int
    run: int

    @classmethod
    def of(cls, table: PCollection[Any], folder: StateFolder | None) -> Self | None:
        """``None`` where the table goes on from earlier runs."""
        if (position := begins_anew(table)) is None:
            return None
        latest, run = (None, 1) if folder is None else (folder.latest, folder.run)
        return cls(position, NO_TIME if latest is None else latest, run)

    def moment(self) -> tuple[int | None, int | None]:
        """Time and position as records have them."""
        time, position = times_or_null(pa.array([self.time, self.position])).to_pylist()
        return time, position


class TableRecords(Protocol):
    """The format in which the changes or the rows of a table are written to a file."""

    @property
    def format(self) -> Format:
        """The format of the file."""

    @property
    def typed(self) -> bool:
        """Whether rows are taken in columns, and not as JSON texts."""

    @property
    def of_finals(self) -> bool:
        """Whether the rows are written that the table has in the end, and no changes."""

    @property
    def anew(self) -> Anew | None:
        """How the table begins anew, if it does."""

    @property
    def head(self) -> pa.Array | None:
        """The records before all others: a truncate, where the table begins anew."""

    def begun(self, anew: Anew | None) -> Self:
        """The same of a table that begins anew. Raises ``ValueError`` for records that cannot say so."""

    def of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The records of changes with their old and new values."""

    def of_rows(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        """The records of the rows that the table has in the end."""

    def writer(self, file: Any) -> Any:
        """A writer of records to a file."""


class ChangeRecords:
    """The records of a table of typed columns: their kind and their format; ``table`` is the name of the table in
    pairs.
    """

    typed = True
    anew: Anew | None = None

    def __init__(self, rows: PlainRows, as_: Made, format_: Format, table: str = "") -> None:
        """Raises ``ValueError`` for a column that would be there twice, or of a type that the format does not
        have.
        """
        self.format, self.of_finals = format_, as_ == "rows"
        self._rows = rows
        self._table = table
        self._as = as_
        if taken := [name for name in MARKS.names if name in rows.schema.names and as_ == "upserts"]:
            raise ValueError(
                f"the table has a column '{taken[0]}', as the change itself: give it another name (--select, or MapTable), or "
                "write pairs"
            )
        of_files = file_format(format_)
        if as_ == "pairs" and not of_files.nests:
            raise ValueError(f"{format_.upper()} has no rows within rows, as pairs have: choose upserts or changes, or another format")
        row = pa.struct(list(rows.schema))
        pairs = [("before", row), ("after", row), ("op", pa.string()), ("source", _SOURCE), ("ts_ms", pa.int64())]
        time = pa.int64() if of_files.of_json else MARKS.field("timestamp").type
        self.columns = {
            "upserts": pa.schema([*rows.schema, *MARKS]),
            "pairs": pa.schema(pairs),
            "changes": pa.schema([*columns_of_changes(rows.key_type, row, time)]),
            "rows": rows.schema,
            "table": pa.schema([("key", rows.key_type), ("new", row), ("position", pa.int64())]),
        }[as_]
        self._records = of_files.encoder(self.columns, as_ == "pairs")

    def begun(self, anew: Anew | None) -> Self:
        """The same of a table that begins anew. Raises ``ValueError`` for upserts."""
        if anew is not None and self._as == "upserts":
            raise ValueError(
                f"the table begins anew at position {anew.position}, and upserts cannot say that the rows of earlier runs are void: "
                "write changes or pairs (records=) to a new path, or by a command with another --state-dir"
            )
        records = copy(self)
        records.anew = anew
        return records

    @property
    def head(self) -> pa.Array | None:
        """A truncate, where changes or pairs are of a table that begins anew."""
        if self.anew is None or self._as not in ("changes", "pairs"):
            return None
        time, position = self.anew.moment()
        said: dict[str, Any] = {"op": _TRUNCATE, "timestamp": time, "position": position}
        if self._as == "pairs":
            milli = None if time is None else time // _MILLI
            source = ["beam_joins", self._table, self.anew.position, str(self.anew.run), milli, time]
            said = {"op": _TRUNCATE[0], "source": dict(zip([field.name for field in _SOURCE], source, strict=True)), "ts_ms": milli}
        given = [pa.array([said[each.name]], each.type) if each.name in said else pa.nulls(1, each.type) for each in self.columns]
        return self._records.encoded(given)

    def writer(self, file: Any) -> Any:
        """A writer of records to a file."""
        return self._records.writer(file)

    def of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The records of changes with their old and new values."""
        made = {"upserts": self._of_upserts, "pairs": self._of_pairs, "changes": self._of_changes, "table": self._of_table}
        return self._records.encoded(made[self._as](changes, old, new))

    def of_rows(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        """The records of the rows that the table has in the end."""
        return self._records.encoded(self._rows.columns(keys, values))

    def _of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        before, after = (self._rows.structs(changes.key, values) for values in (old, new))
        return fitted(change_columns(changes, before, after), self.columns)

    def _of_table(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        return fitted([stored_keys(changes.key), self._rows.structs(changes.key, new), changes.position], self.columns)

    def _of_upserts(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        at = times_or_null(changes.timestamp).cast(MARKS.field("timestamp").type)
        return [*self._rows.columns(changes.key, new), at, changes.position, new.is_null()]

    def _of_pairs(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> list[pa.Array]:
        operations = pa.array(["c", "u", "d"]).take(pc.if_else(new.is_null(), 2, pa.array(valid(old).astype("int64"))))
        micros = times_or_null(changes.timestamp)
        times = pa.array(integers(changes.timestamp) // _MILLI, mask=~valid(micros))
        count = len(changes)
        constant: Callable[[str], pa.Array] = lambda text: pa.array([text] * count, pa.string())  # noqa: E731
        sequence = pa.nulls(count, pa.string())
        if self.anew is not None:
            given_again = pc.less_equal(changes.position, self.anew.position)
            sequence = pc.if_else(given_again, pa.scalar(str(self.anew.run)), sequence)
        source = [constant("beam_joins"), constant(self._table), changes.position, sequence, times, micros]
        return [
            self._rows.structs(changes.key, old),
            self._rows.structs(changes.key, new),
            operations,
            pa.StructArray.from_arrays(source, fields=list(_SOURCE)),
            times,
        ]


class TextRecords:
    """The records of a table whose rows are JSON text: its changes or its rows as lines, with the digits of the
    texts.
    """

    format: Format = "json lines"
    typed = False

    def __init__(self, *, of_finals: bool = False, anew: Anew | None = None) -> None:
        self.of_finals = of_finals
        self.anew = anew

    def begun(self, anew: Anew | None) -> "TextRecords":
        """The same of a table that begins anew."""
        return TextRecords(of_finals=self.of_finals, anew=anew)

    @property
    def head(self) -> pa.Array | None:
        """The line of a truncate, where changes are of a table that begins anew."""
        if self.anew is None or self.of_finals:
            return None
        time, position = self.anew.moment()
        line = {"key": None, "op": _TRUNCATE, "old": None, "new": None, "timestamp": time, "position": position}
        return pa.array([dumps_line(line)], pa.binary())

    def writer(self, file: Any) -> BytesWriter:
        """A writer of lines to a file."""
        return BytesWriter(file)

    def of_changes(self, changes: ChangeBatch, old: pa.Array, new: pa.Array) -> pa.Array:
        """The lines of changes with their old and new values."""
        return json_changes(changes, old, new)

    def of_rows(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        """The lines of the rows that the table has in the end."""
        return joined(values, b"\n")


def merged_changes(path: str) -> Iterator[ChangeBatch]:
    """The changes in an Arrow file of a ``"table"``, some at a time, in the order of their positions."""
    with opened(path) as batches:
        for number in range(batches.num_record_batches):
            batch = batches.get_batch(number)
            for start in range(0, len(batch), _ROWS):
                rows = batch.slice(start, _ROWS)
                at = rows["position"]
                yield ChangeBatch(key=rows["key"], new=rows["new"], before=pa.nulls(len(rows), pa.int64()), timestamp=at, position=at)
