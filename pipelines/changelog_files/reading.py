"""What is read of the records of a changelog, and the columns that it becomes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, TypeVar

import pyarrow as pa

from beam_joins.pipelines.changelog_files.columns import Columns, Row, Unit, key_fault

T = TypeVar("T")
Form = Literal["avro", "json lines"]
Kind: TypeAlias = str
"""What a column holds, in words: those of :func:`kind`."""

KEY: Final = "key"
TIME: Final = "time"
DELETED: Final = "deleted"
PLACE: Final = "place"
REFERENCE: Final = "reference"
ENOUGH: Final = "enough"
TEXT: Final = "text"
KEY_TYPES: Final[Mapping[Kind, pa.DataType]] = {
    "text": pa.string(),
    "whole numbers": pa.int64(),
    "true or false": pa.bool_(),
    "bytes": pa.binary(),
}
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read of each record; a record that does not have it is a bad one.

    ``key`` and ``refers`` are what the key (None: anything) and the ``reference`` (a column with another table's key) hold, in words. ``amount`` is a column of
    numbers that ``least`` is compared with. ``added`` is a column that a record must not have, as it is added later, and ``rename`` what to do where one
    has it. ``taken`` are the columns of the row's value with the names that they get there (None: all), and ``known`` those that a record may have
    (None: any). ``forms`` are those that each row is kept in: ``json lines`` for its JSON text, ``avro`` for its Avro bytes, by the record schema ``avro``.

    >>> reading = Reading(columns=Columns(key="id", timestamp="at", sequence="lsn"), reference="by", forms=("json lines",))
    >>> reading.schema.names
    ['key', 'time', 'sequence_0', 'deleted', 'place', 'reference', 'json lines']
    """

    columns: Columns
    key: Kind | None = "text"
    reference: str | None = None
    refers: Kind = "text"
    amount: str | None = None
    least: Decimal | None = None
    added: str | None = None
    rename: str = ""
    taken: tuple[tuple[str, str], ...] | None = None
    known: frozenset[str] | None = None
    forms: tuple[Form, ...] = ("json lines",)
    avro: dict[str, Any] | None = field(default=None, hash=False)

    @property
    def sequences(self) -> tuple[str, ...]:
        """The columns of the records that order them."""
        columns = self.columns
        return () if columns.sequence is None else (columns.sequence, *columns.within)

    @property
    def value(self) -> pa.Schema:
        """The columns that are the row's value."""
        fields: list[tuple[str, pa.DataType]] = [(form, pa.binary()) for form in self.forms]
        if self.least is not None:
            fields.insert(0, (ENOUGH, pa.bool_()))
        if self.reference is not None:
            fields.insert(0, (REFERENCE, KEY_TYPES[self.refers]))
        return pa.schema(fields)

    @property
    def schema(self) -> pa.Schema:
        """All columns: those that say what the record is, then those of the row's value."""
        numbers = [TIME, *(sequence_name(n) for n in range(len(self.sequences)))]
        fields = [(KEY, self.key_type), *((name, pa.int64()) for name in numbers), (DELETED, pa.bool_()), (PLACE, pa.int64())]
        return pa.schema([*fields, *self.value])

    @property
    def key_type(self) -> pa.DataType:
        """The type of the column of keys."""
        return KEY_TYPES[self.key or "text"]

    def of_unit(self, unit: Unit | None) -> "Reading":
        """The same of files that say themselves what their times count."""
        return self if unit is None or unit == self.columns.unit else replace(self, columns=replace(self.columns, unit=unit))

    def names(self) -> tuple[str, ...]:
        """The columns of the records that are read, each once."""
        columns = self.columns
        given = (columns.key, columns.timestamp, *self.sequences, columns.delete, self.reference, self.amount)
        return tuple(dict.fromkeys(name for name in given if name is not None))

    def fault(self, row: Row) -> str | None:
        """What makes the record unusable, or None."""
        fault = self.columns.fault(row)
        if self.columns.is_truncate(row):
            return fault
        if fault is None and self.reference is not None:
            fault = key_fault(self.reference, row.get(self.reference))
        if fault is None and self.amount is not None and not isinstance(number := row.get(self.amount), int | float | Decimal | None):
            fault = f"column '{self.amount}' is not a number: {number!r}"
        if fault is None and self.added is not None and self.added in row:
            fault = f"there is a column '{self.added}' already: {self.rename}"
        if fault is None and self.known is not None and (other := next((name for name in row if name not in self.known), None)):
            fault = f"column '{other}' is none of those of the first records: name the columns that you want in --select"
        if fault is None and self.reference is not None:
            fault = _kind_fault(row, self.reference, self.refers)
        return fault if fault or self.key is None else _kind_fault(row, self.columns.key, self.key)

    def fits(self, names: Collection[str]) -> bool:
        """Whether rows of these columns, all of which are known, can be kept as JSON many at a time."""
        return self.forms == ("json lines",) and self.added not in names and (self.known is None or self.known.issuperset(names))

    def value_of(self, columns: Mapping[str, T], missing: T) -> dict[str, T]:
        """The columns of the row's value, by the names that they get; ``missing`` for one that is not there.

        >>> Reading(columns=Columns(key="id", timestamp="at", delete="op"), taken=(("id", "nr"), ("x", "y"))).value_of({"id": 1, "at": 5, "op": "c"}, 0)
        {'nr': 1, 'y': 0}
        """
        if self.taken is not None:
            return {name: columns.get(column, missing) for column, name in self.taken}
        left_out = self.columns.about_the_change()
        return {name: column for name, column in columns.items() if name not in left_out}

    def is_enough(self, amount: Any) -> bool:
        """Whether an amount is not below ``least``; one that is not there is.

        A float is compared with the float next to ``least``, other numbers with ``least`` itself: 0.1 is not below 0.1 in any form.
        """
        if amount is None or self.least is None:
            return False
        return bool(amount >= (float(self.least) if isinstance(amount, float) else self.least))


def sequence_name(number: int) -> str:
    """The column of the position (0) or of the order within it."""
    return f"sequence_{number}"


def kind(value: object) -> Kind:
    """What a value is, in words.

    >>> kind(7)
    'whole numbers'
    """
    kinds = {bool: "true or false", int: "whole numbers", str: "text", bytes: "bytes", float: "fractions"}
    return kinds.get(type(value), type(value).__name__)


def _kind_fault(row: Row, column: str, expected: Kind) -> str | None:
    value = row.get(column)
    if value is None:
        return None
    if kind(value) != expected:
        return f"column '{column}' holds {expected}, but here {kind(value)}: {value!r}"
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return f"column '{column}' does not fit in 64 bits: {value}"
    return None
