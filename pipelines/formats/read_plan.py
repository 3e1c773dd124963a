"""Defines which columns of a changelog's records are read, and their types."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, Literal, Self, TypeAlias, TypeVar

import pyarrow as pa

from beam_joins.keys.opaque import KEYS, VALUES
from beam_joins.pipelines.formats.changelog_columns import (
    DELETED,
    KEY,
    LEFT_OUT,
    LIFE,
    LOG,
    ORDER,
    PLACE,
    POSITION,
    REFERENCE,
    TIME,
    Columns,
    Row,
    Unit,
    key_fault,
    plain_key,
    reference_at,
    shown,
)
from beam_joins.pipelines.formats.types.exact_json import BytesText

T = TypeVar("T")
Form = Literal["columns", "json lines", "row", "object"]
"""The form in which rows are kept: structs of typed columns, JSON texts, or the elements of a table of Python: typed
columns beside those about the change, or Python objects.
"""
JSON: Final[Form] = "json lines"
COLUMNS: Final[Form] = "columns"
Kind: TypeAlias = str
"""The kind of a column's values, in words: see :func:`kind`."""

BEHIND_DELETES: Final = 1 << 62
"""The addend to the place of an upsert that sorts it behind all deletes; no place is as large."""
KEY_TYPES: Final[Mapping[Kind, pa.DataType]] = {
    "text": pa.string(),
    "whole numbers": pa.int64(),
    "true or false": pa.bool_(),
    "bytes": pa.binary(),
}
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """The columns that are read of each record; a record without them is a bad one.

    ``key`` and ``refers`` are what the columns of the key (empty: anything) and of the ``reference`` (columns
    with another table's key; empty: none) hold, in words, and ``numbers`` columns that hold numbers or null.
    A key of several columns is a struct, whose fields are called ``key_names``, and of a reference
    ``refers_names``. ``added`` is a column that
    a record must not have, as it is added later, and ``rename`` what to do where one has it. ``taken`` are
    the columns of the row's value with the names that they get there (None: all), and ``allowed`` those that a
    record may have (None: any); ``members`` are those that records are known to have, in the order in which rows have them.
    ``forms`` are those that each row is kept in: ``json lines`` for its JSON
    text, ``columns`` for a struct of the types ``typed``, by the names that columns get, whose bytes are text in
    ``bytes_text``. Or one of the forms of Python: ``row`` for columns of the types ``typed`` beside those about the
    change, which have the key too; ``object`` for dicts without the columns ``omitted``, with the key that lies at
    ``paths`` within them, and with ``in_python`` numbers for the objects of MongoDB's extended JSON that stand for some. An
    envelope that says other types than those ``expected`` is a bad record. ``type_remedy`` is what the sentence on a value
    of another type ends with, by default the option that says types. The ``repr``, by which runs
    are compared, is without the columns of rows, of which a later run may have more.

    >>> plan = ReadPlan(columns=Columns(key=("id",), timestamp="at", sequence="lsn"), reference=("by",))
    >>> plan.schema.names
    ['(key)', '(time)', '(position)', '(deleted)', '(place)', '(reference)', 'json lines']
    """

    columns: Columns
    key: tuple[Kind, ...] = ("text",)
    key_names: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    refers: tuple[Kind, ...] = ("text",)
    refers_names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    added: str | None = None
    rename: str = ""
    taken: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)
    allowed: frozenset[str] | None = field(default=None, repr=False)
    members: tuple[str, ...] = field(default=(), repr=False)
    forms: tuple[Form, ...] = ("json lines",)
    typed: pa.Schema | None = field(default=None, repr=False)
    bytes_text: BytesText = field(default="base64", repr=False)
    paths: tuple[tuple[str, ...], ...] = ()
    in_python: bool = field(default=False, repr=False)
    omitted: frozenset[str] = frozenset()
    expected: pa.Schema | None = field(default=None, repr=False)
    type_remedy: str | None = field(default=None, repr=False)

    @classmethod
    def of_rows(cls, columns: Columns, typed: pa.Schema, expected: pa.Schema | None = None, bytes_text: BytesText = "base64") -> Self:
        """For a table in Python with rows in typed columns."""
        taken = tuple((name, name) for name in typed.names)
        plain = replace(columns, key=())
        return cls(columns=plain, key=(), taken=taken, forms=("row",), typed=typed, expected=expected, bytes_text=bytes_text)

    @classmethod
    def of_objects(cls, columns: Columns, paths: Iterable[Sequence[str]], omitted: Collection[str] = ()) -> Self:
        """For a table in Python with rows that are dicts, whose key lies at ``paths``."""
        within = tuple(map(tuple, paths))
        return cls(columns=replace(columns, key=()), key=(), forms=("object",), paths=within, omitted=frozenset(omitted))

    @property
    def is_typed(self) -> bool:
        """Whether rows are made of typed columns."""
        return "columns" in self.forms or "row" in self.forms

    @property
    def typed_texts(self) -> pa.Schema:
        """The columns of the texts of rows and their types."""
        return self.typed or pa.schema([])

    @property
    def typed_lines(self) -> pa.Schema:
        """The columns of whole records that the rows have, each once, and their types."""
        names = dict(self.taken or ((name, name) for name in self.typed_texts.names))
        return pa.schema([self.typed_texts.field(name).with_name(column) for column, name in names.items()])

    @property
    def sequences(self) -> tuple[str, ...]:
        """The columns of the records that order them."""
        columns = self.columns
        return () if columns.sequence is None else (columns.sequence, *columns.within)

    @property
    def positions(self) -> tuple[str, ...]:
        """The columns that order the changes: the position, and the order within it."""
        names = (POSITION, ORDER, *(f"(order {n})" for n in range(2, len(self.sequences))))
        return names[: len(self.sequences)]

    @property
    def value(self) -> pa.Schema:
        """The columns that are the row's value."""
        if "row" in self.forms:
            return self.typed or pa.schema([])
        types = {"json lines": pa.binary(), "columns": pa.struct(list(self.typed or ())), "object": VALUES}
        fields: list[tuple[str, pa.DataType]] = [(form, types[form]) for form in self.forms]
        if self.reference:
            fields.insert(0, (REFERENCE, self.reference_type))
        return pa.schema(fields)

    @property
    def about(self) -> pa.Schema:
        """The columns about the change."""
        of_key = [] if "row" in self.forms else [(KEY, KEYS if "object" in self.forms else self.key_type)]
        numbers = [(name, pa.int64()) for name in (TIME, *self.positions)]
        texts = [(name, pa.string()) for name in self.texts]
        return pa.schema([*of_key, *numbers, (DELETED, pa.bool_()), (PLACE, pa.int64()), *texts])

    @property
    def schema(self) -> pa.Schema:
        """All columns: those about the change, then those of the row's value."""
        return pa.schema([*self.about, *self.value])

    @property
    def texts(self) -> dict[str, str]:
        """The columns of texts about the change, with the columns of the records that have them."""
        columns = self.columns
        named = {LOG: columns.log, LEFT_OUT: columns.left_out, LIFE: columns.life}
        return {name: column for name, column in named.items() if column is not None}

    @property
    def key_type(self) -> pa.DataType:
        """The type of the column of keys."""
        return _type_of(self.key or ("text",), self.key_names or self.columns.key)

    @property
    def reference_type(self) -> pa.DataType:
        """The type of the column of references."""
        return _type_of(self.refers, self.refers_names or self.reference)

    @property
    def keys(self) -> dict[str, pa.DataType]:
        """The columns of the records with keys and parts of keys, and their types."""
        kinds = [*zip(self.columns.key, self.key or ["text"] * len(self.columns.key), strict=True)]
        kinds += zip(self.reference, self.refers if self.reference else (), strict=True)
        return {column: KEY_TYPES[kind] for column, kind in reversed(kinds)}

    def of_unit(self, unit: Unit | None, *, digits: bool = False) -> "ReadPlan":
        """The same of files that say themselves what their times count, or have ``digits`` for numbers."""
        columns = replace(self.columns, unit=self.columns.unit if unit is None else unit, digits=digits)
        return self if columns == self.columns else replace(self, columns=columns)

    def names(self) -> tuple[str, ...]:
        """The columns of the records that are read, each once."""
        columns = self.columns
        names = (
            *columns.key,
            columns.timestamp,
            *self.sequences,
            columns.delete,
            columns.truncating,
            columns.ignoring,
            *self.texts.values(),
            *self.reference,
            *self.numbers,
        )
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def fault(self, row: Row) -> str | None:
        """The fault that makes the record unusable, or None."""
        fault = self.columns.fault(row)
        if self.columns.is_truncate(row):
            return fault
        for column in self.reference:
            fault = fault or key_fault(column, reference_at(row, column), documents=self.columns.enveloped)
        for column in self.numbers:
            if fault is None and not isinstance(number := row.get(column), int | float | Decimal | None):
                fault = f"column '{column}' is not a number: {shown(number)}"
        if fault is None and self.added is not None and self.added in row:
            fault = f"there is a column '{self.added}' already: {self.rename}"
        if fault is None and self.allowed is not None and (other := next((name for name in row if name not in self.allowed), None)):
            option = "--select, of incremental runs in the first one" if self.columns.side is not None else self.columns.flag("schema")
            fault = f"column '{other}' is none of those of the first records: name the columns that you want in {option}"
        kinds = [*zip(self.reference, self.refers if self.reference else (), strict=True)]
        kinds += zip(self.columns.key if self.key else (), self.key, strict=True)
        for column, expected in kinds:
            fault = fault or _kind_fault(row, column, expected)
        return fault

    def fits(self, names: Collection[str]) -> bool:
        """Whether rows of these columns, all of which are known, can be kept many at a time."""
        return self.added not in names and (self.allowed is None or self.allowed.issuperset(names))

    def needed(self, names: Collection[str]) -> list[str] | None:
        """The columns of a file that are read, where the others say nothing of its records; None: all.

        >>> ReadPlan.of_rows(Columns(key=(), timestamp="at"), pa.schema({"id": pa.int64()})).needed(["at", "id", "more"])
        ['at', 'id']
        """
        if self.taken is None or not self.fits(names) or self.allowed is not None:
            return None
        needed = {*self.names(), *(column for column, _ in self.taken)}
        return [name for name in names if name in needed]

    def value_of(self, columns: Mapping[str, T], missing: T) -> dict[str, T]:
        """The columns of the row's value, by the names that they get; ``missing`` for a column that is not there.

        >>> plan = ReadPlan(columns=Columns(key=("id",), timestamp="at", delete="op"), taken=(("id", "nr"), ("x", "y")))
        >>> plan.value_of({"id": 1, "at": 5, "op": "c"}, 0)
        {'nr': 1, 'y': 0}
        """
        if self.taken is not None:
            return {name: columns.get(column, missing) for column, name in self.taken}
        left_out = self.columns.about_the_change()
        if self.members:
            columns = {**{name: columns[name] for name in self.members if name in columns}, **columns}
        return {name: column for name, column in columns.items() if name not in left_out}

    def takes(self, column: str) -> bool:
        """Whether the row's value has something of a column.

        >>> ReadPlan(columns=Columns(key=("id",), timestamp="at"), taken=(("id", "nr"),), reference=("by",)).takes("bio")
        False
        """
        return column in self.reference or self.taken is None or any(column == taken for taken, _ in self.taken)


def _type_of(kinds: tuple[Kind, ...], names: tuple[str, ...]) -> pa.DataType:
    """The type of keys of columns that hold these kinds."""
    types = [KEY_TYPES[kind] for kind in kinds]
    return types[0] if len(types) == 1 else pa.struct(list(zip(names, types, strict=True)))


def kind(value: object) -> Kind:
    """The kind of a value, in words.

    >>> kind(7), kind(Decimal("7.00")), kind(Decimal("7.5"))
    ('whole numbers', 'whole numbers', 'fractions')
    """
    value = plain_key(value)
    kinds = {bool: "true or false", int: "whole numbers", str: "text", bytes: "bytes", float: "fractions", Decimal: "fractions"}
    return kinds.get(type(value), type(value).__name__)


def _kind_fault(row: Row, column: str, expected: Kind) -> str | None:
    value = plain_key(reference_at(row, column))
    if value is None:
        return None
    if kind(value) != expected:
        return f"column '{column}' holds {expected}, but here {kind(value)}: {shown(value)}"
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return f"column '{column}' does not fit in 64 bits: {value}"
    return None
