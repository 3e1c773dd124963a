"""The columns of a changelog by their role: key, event time, sequence, operation."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from beam_joins.elements.iso_times import EPOCH, NO_TIME, has_nanoseconds, micros_of_text, text_of_micros
from beam_joins.options.operations import DELETES, NOT_NULL, NULL, UPSERTS, deletes_by, word
from beam_joins.pipelines.formats.csv_schema import NOT_SAID, CsvText, Layout
from beam_joins.pipelines.formats.types.extended_json import identity

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = Mapping[str, Any]
Unit = Literal["us", "ms", "s", "ns"]
NANOSECONDS: Final[dict[Unit, int]] = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "ns": 1}

KEY, REFERENCE, TIME, POSITION, ORDER = "(key)", "(reference)", "(time)", "(position)", "(order)"
OPERATION, DELETED, LOG, LEFT_OUT, LIFE, PLACE = "(operation)", "(deleted)", "(log)", "(left out)", "(life)", "(place)"
"""The columns about a change, beside those of its row. ``OPERATION`` is the word of an envelope, ``DELETED`` its meaning
(null: the change empties the table). ``LEFT_OUT`` has a list of names as JSON text, or null, and ``LIFE`` the text of a
:class:`~beam_joins.tables.key_handover.Life`; ``PLACE`` orders changes that nothing else orders.
"""

_LEAST, _MOST = -(2**63), 2**63 - 1
EXACT_IN_DOUBLES: Final = 1 << 53
"""The bound below which a double is one whole number and no other one rounded."""
_DIGITS: Final = 76
"""The most digits of a decimal of Arrow."""
WHOLE: Final = re.compile(r"[+-]?[0-9]+")
"""The text of a whole number."""
_OF_FEEDS: Final = frozenset({"_change_type", "change_type", "metadata$action", "__$operation"})
"""The columns of operations in feeds whose changes of one version have no order: those of Delta, Iceberg and BigQuery, of
DuckLake, of Snowflake and of SQL Server.
"""
_OLD_IMAGES: Final = frozenset({"update_preimage", "update_before"})
"""The words of such feeds for the old row of an update."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of one changelog that say how to read it.

    ``key`` are those of the primary key. ``timestamp`` None: the event time is :data:`~beam_joins.elements.iso_times.NO_TIME`.
    ``sequence`` None: the event time is the position; ``within``: columns that order the changes of a row at one
    position. ``delete`` None: there are no deletes; else the column's text, in any case (``true`` for true, ``null`` for
    null), is among ``deletes``, among ``upserts``, or among ``truncates``, which empty the table and have no key; or
    among ``ignored``: such a record is no change. The last two may be of columns of their own, ``truncate`` and
    ``ignore``. ``unit`` is the unit of whole numbers in ``timestamp``, and
    ``digits`` whether text of digits is such a number, as where the format has no numbers. ``csv`` says how CSV files are
    written. ``log`` is the column that names the log of the sequence (null: not known), ``left_out`` the columns that a row
    does not have as they did not change, and ``life`` the encoded
    :class:`~beam_joins.tables.key_handover.Life`. ``side`` is the prefix of the options of these columns, ``orders`` for
    ``--orders-key``; empty: no prefix; None: Python. ``envelopes``: the envelopes that the rows are in, which say all
    but the key. ``snapshots``: the records are the rows of snapshots, whose times these say. ``declared`` are the types of columns
    that options name. A time more than ``ahead`` microseconds ahead of the
    clock is a fault.

    >>> columns = Columns(key=("id",), timestamp="at", sequence="lsn", delete="op", unit="ms", side="orders")
    >>> row = {"id": 1, "at": 5, "lsn": "17", "op": "D"}
    >>> columns.time_of(row), columns.position_of(row), columns.is_delete(row), columns.fault(row)
    (5000, 17, True, None)
    >>> columns.fault({"id": 1, "at": "yesterday", "lsn": 1, "op": "c"})
    "column 'at' is not a time: 'yesterday', and no text in ISO 8601 such as 2026-11-01T08:00:00"
    >>> columns.fault({"id": 1, "at": 5, "lsn": 1, "op": None})
    "column 'op' is null: add null to --orders-apply-as-upserts, --orders-apply-as-deletes or --orders-ignored to say what that means"
    """

    key: tuple[str, ...]
    timestamp: str | None = None
    sequence: str | None = None
    within: tuple[str, ...] = ()
    delete: str | None = None
    deletes: frozenset[str] = DELETES
    upserts: frozenset[str] = UPSERTS
    truncates: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    truncate: str | None = None
    ignore: str | None = None
    unit: Unit = "us"
    csv: CsvText = NOT_SAID
    digits: bool = False
    side: str | None = ""
    log: str | None = None
    left_out: str | None = None
    life: str | None = None
    envelopes: "Envelopes | None" = None
    snapshots: "Snapshots | None" = None
    declared: Layout = ()
    ahead: int | None = field(default=None, repr=False)

    @property
    def enveloped(self) -> bool:
        """Whether envelopes say what the columns of rows say else."""
        return self.envelopes is not None

    @property
    def is_ordered(self) -> bool:
        """Whether columns or snapshots order the records: else they are at one position, and the last one of a key counts."""
        return self.timestamp is not None or self.sequence is not None or self.snapshots is not None

    @property
    def is_feed(self) -> bool:
        """Whether the records are of a change feed, which does not order the changes of a row at one position: a delete there
        is of the row before. A log is written in order.
        """
        is_named = self.delete is not None and self.delete.lower() in _OF_FEEDS
        return self.is_ordered and (is_named or not _OLD_IMAGES.isdisjoint(self.deletes | self.ignored))

    def flag(self, name: str) -> str:
        """An option of these columns as it is written: :func:`flag_of` their side."""
        return flag_of(self.side, name)

    @property
    def truncating(self) -> str | None:
        """The column whose values are among ``truncates`` where a record empties the table."""
        return (self.truncate or self.delete) if self.truncates else None

    @property
    def ignoring(self) -> str | None:
        """The column whose values are among ``ignored`` where a record is no change."""
        return (self.ignore or self.delete) if self.ignored else None

    def time_of(self, row: Row) -> int:
        """The event time in microseconds since the epoch; a date is its midnight in UTC, text is ISO 8601, in
        UTC if it does not say, and not of digits alone. Without a column of times :data:`~beam_joins.elements.iso_times.NO_TIME`.

        Raises:
            ValueError: it is neither a whole number, a date nor such a text.
            KeyError: there is no such column.
        """
        if self.timestamp is None:
            return NO_TIME
        value = self._time_in(row, self.timestamp)
        if type(value) is int:
            return value * NANOSECONDS[self.unit] // 1_000
        if isinstance(value, Decimal) and value.is_finite() and abs(value) < _MOST:  # finer than microseconds
            return math.floor(value * NANOSECONDS[self.unit] / 1_000)
        if isinstance(value, str):
            return micros_of_text(value)
        if not isinstance(value, dt.date):
            raise ValueError("not a time")
        return micros_of(value)

    def _time_in(self, row: Row, column: str) -> Any:
        """The event time as the record has it, a whole number as such."""
        value = row[column]
        return int(value) if self.digits and isinstance(value, str) and WHOLE.fullmatch(value) else whole_number(value)

    def _has_nanoseconds(self, row: Row) -> bool:
        """Whether the event time is no whole number of microseconds."""
        value = None if self.timestamp is None else self._time_in(row, self.timestamp)
        if isinstance(value, int | Decimal):
            return bool(value * NANOSECONDS[self.unit] % 1_000)
        return isinstance(value, str) and has_nanoseconds(value)

    def position_of(self, row: Row) -> int | None:
        """The sequence number, a whole number, its digits (0 to 9, with a sign or without) as text or a date,
        as microseconds since the epoch; None where it is null.

        Raises:
            ValueError: it is something else.
            KeyError: there is no such column.
        """
        return self.time_of(row) if self.sequence is None else _whole_number(row[self.sequence])

    def sequence_of(self, row: Row) -> tuple[int | None, ...]:
        """The position, and what orders the changes of a row within it."""
        return (self.position_of(row), *(_whole_number(row[column]) for column in self.within))

    def is_delete(self, row: Row) -> bool:
        """Whether the record deletes its row."""
        return self.delete is not None and bool(deletes_by(word(whole_number(row.get(self.delete))), self.deletes, self.upserts))

    def is_ignored(self, row: Row) -> bool:
        """Whether the record is no change, as the old values that some feeds have beside the new ones."""
        return self.ignoring is not None and word(whole_number(row.get(self.ignoring))) in self.ignored

    def is_truncate(self, row: Row) -> bool:
        """Whether the record empties the table."""
        return self.truncating is not None and word(whole_number(row.get(self.truncating))) in self.truncates

    def about_the_change(self) -> tuple[str, ...]:
        """The columns that describe the change and not the row: they are not part of the row's value."""
        is_made = self.enveloped or self.snapshots is not None
        return tuple(
            column
            for column in (
                self.delete,
                self.sequence,
                *self.within,
                self.log,
                self.left_out,
                self.life,
                *([self.timestamp] if is_made else []),
                None if self.snapshots is None else self.snapshots.timestamp,
            )
            if column is not None and (is_made or column not in (*self.key, self.timestamp))
        )

    def of_changes(self) -> "Columns":
        """The columns of the changes between snapshots."""
        return replace(self, timestamp=TIME, unit="us", delete=OPERATION, deletes=frozenset({"d"}), upserts=frozenset({"u"}))

    def of_snapshot(self) -> "Columns":
        """The columns of the rows of one snapshot, without its time."""
        return replace(self, timestamp=None, delete=None)

    def fault(self, row: Row) -> str | None:
        """The fault that makes the record unusable, or None.

        A null key or sequence is no fault here: the table drops and counts it.
        """
        try:
            if self.is_truncate(row):
                return self._order_fault(row)
            of_key = next(
                filter(None, (key_fault(column, value_at(row, column), documents=self.enveloped) for column in self.key)), None
            )
            return of_key or self._operation_fault(row) or self._order_fault(row)
        except KeyError as error:
            return f"no column {error}"

    def _operation_fault(self, row: Row) -> str | None:
        if self.delete is None:
            return None
        operation = word(whole_number(row.get(self.delete)))
        if operation in self.ignored or deletes_by(operation, self.deletes, self.upserts) is not None:
            return None
        seen = "null" if row.get(self.delete) is None else shown(row[self.delete])
        options = f"{self.flag('apply_as_upserts')}, {self.flag('apply_as_deletes')} or {self.flag('ignored')}"
        if operation[:1].isdigit() and NULL in self.upserts:
            of_any = f"{{{self.delete!r}: [{NOT_NULL!r}]}}" if self.side is None else f"={self.delete}={NOT_NULL}"
            options = f"{options}, or give {self.flag('apply_as_deletes')}{of_any} if any value marks a deleted row,"
        return f"column '{self.delete}' is {seen}: add {operation} to {options} to say what that means"

    def _order_fault(self, row: Row) -> str | None:
        return self._time_fault(row) or self._sequence_fault(row)

    def _time_fault(self, row: Row) -> str | None:
        try:
            time = self.time_of(row)
        except (ValueError, OverflowError):
            value = row.get(self.timestamp or "")
            form = ", and no text in ISO 8601 such as 2026-11-01T08:00:00" if isinstance(value, str) else ""
            return f"column '{self.timestamp}' is not a time: {shown(value)}{form}{self._remedy_for_text(value)}"
        if not _LEAST <= time <= _MOST:
            return f"column '{self.timestamp}' does not fit in 64 bits as microseconds: {shown(row.get(self.timestamp or ''))}"
        if self.ahead is not None and time > (latest := now() + self.ahead):
            most = f"{self.flag('max_ahead')} says at most {text_of_micros(latest)}"
            return f"column '{self.timestamp}' is {text_of_micros(time)}, ahead of the clock: {most}"
        if self.sequence is None and self._has_nanoseconds(row):
            remedy = f"name a column with whole numbers of nanoseconds with {self.flag('sequence_by')}"
            return f"column '{self.timestamp}' has nanoseconds, which microseconds do not order: {remedy}"
        return None

    def _remedy_for_text(self, value: Any) -> str:
        """The remedy for a time of a CSV file in another form; empty for what is none."""
        if not self.digits or not isinstance(value, str):
            return ""
        from beam_joins.pipelines.formats.column_formats import formats_by, readings  # noqa: PLC0415  # with PyArrow

        fitting = readings([value])
        return (
            fitting and f": say how it is written, with {formats_by(self.flag('column_formats'), self.timestamp or '', fitting)}"
        ) or ""

    def _sequence_fault(self, row: Row) -> str | None:
        for column in (self.sequence, *self.within):
            try:
                number = None if column is None else _whole_number(row[column])
            except ValueError:
                value = row[column or ""]
                finer = " (of times microseconds count: write nanoseconds as whole numbers)" if isinstance(value, Decimal) else ""
                return f"column '{column}' is not a whole number: {shown(value)}{finer}"
            if number is not None and not _LEAST <= number <= _MOST:
                remedy = f"write its first and last digits into two columns, and name both with {self.flag('sequence_by')}"
                return f"column '{column}' does not fit in 64 bits: {number}: {remedy}"
        return None


def now() -> int:
    """The time of the clock, in microseconds."""
    return time_ns() // 1_000


def flag_of(side: str | None, option: str) -> str:
    """A reader's option as it is written in Python, where ``side`` is None, or on the command line. Commands take types of
    columns alone, which Python's ``schema`` also has.

    >>> flag_of(None, "sequence_by"), flag_of("orders", "sequence_by"), flag_of("", "schema")
    ('sequence_by=', '--orders-sequence-by', '--schema-overrides')
    """
    if side is None:
        return f"{option}="
    option = "schema_overrides" if option == "schema" else option
    return f"--{side}{'-' if side else ''}{option.replace('_', '-')}"


WITHIN: Final = ".$"
"""The sign of a path to a member of MongoDB's extended JSON, such as ``_id.$oid``."""


class Envelopes(NamedTuple):
    """The envelopes of rows, as options describe them.

    Their ``format``, or that of changes at an address; the ``table`` whose rows count, by its full name or the last part
    of it (empty: all rows); the names of its primary ``key`` (empty: those that the envelopes name); all
    ``columns`` of its rows, where they are known; and the ``placeholders`` that stand for values that did not
    change, other than Debezium's own.
    """

    format: str = ""
    table: str = ""
    key: tuple[str, ...] = ()
    columns: "pa.Schema | None" = None
    placeholders: tuple[str, ...] = ()


class Snapshots(NamedTuple):
    """The snapshots that the rows of an input are of, as options describe them.

    The time of a snapshot is in the column ``timestamp`` of its rows, or in the path of its files in the form ``in_path``, as
    ``strptime`` has it; without either it is that of the last write of its file. ``min_share`` is the least number of its rows,
    as a share of those of the snapshot before.
    """

    timestamp: str | None = None
    in_path: str = ""
    min_share: float = 0.5


_UNDESCRIBED: Final = Envelopes()


def enveloped(side: str | None, envelopes: Envelopes = _UNDESCRIBED) -> Columns:
    """The columns of changes in envelopes, without the key."""
    return Columns(
        key=(),
        timestamp=TIME,
        sequence=POSITION,
        within=(ORDER,),
        delete=OPERATION,
        deletes=frozenset({"d"}),
        upserts=frozenset({"u"}),
        truncates=frozenset({"t"}),
        side=side,
        log=LOG,
        left_out=LEFT_OUT,
        life=LIFE,
        envelopes=envelopes,
    )


def key_fault(column: str, key: object, *, documents: bool = False) -> str | None:
    """The fault that makes a value unusable as a key or a reference, or None. An object is usable if it is a value of MongoDB's
    extended JSON, or with ``documents``.

    >>> key_fault("id", 1.5)
    "column 'id' is no key: 1.5 (keys are whole numbers, text, true or false)"
    """
    is_usable = not isinstance(key, dict) or documents or (bool(key) and all(name.startswith("$") for name in key))
    if key is None or (is_usable and isinstance(plain_key(key), int | str | bytes)):
        return None
    return f"column '{column}' is no key: {shown(key)} (keys are whole numbers, text, true or false)"


def value_at(row: Row, column: str) -> Any:
    """The value in a column, or at a path to a member of MongoDB's extended JSON, which begins with a dollar sign. Raises KeyError.

    >>> value_at({"_id": {"$oid": "65f0"}}, "_id.$oid")
    '65f0'
    """
    if column in row or WITHIN not in column:
        return row[column]
    value: Any = row
    for name in column.split("."):
        if not isinstance(value, dict) or name not in value:
            raise KeyError(column)
        value = value[name]
    return value


def reference_at(row: Row, column: str) -> Any:
    """The value of a column with a reference; None in a row without it."""
    try:
        return value_at(row, column)
    except KeyError:
        return None


def plain_key(value: Any) -> Any:
    """A value as it is a key: a date is its text, a document its identity, else as :func:`whole_number` gives it.

    >>> plain_key(dt.date(2026, 3, 1)), plain_key(Decimal("7.00")), plain_key({"$numberLong": "7"}), plain_key({"$oid": "65f0"})
    ('2026-03-01', 7, 7, '{"$oid":"65f0"}')
    """
    if isinstance(value, dict) and value:
        value = identity(value)
    return value.isoformat() if isinstance(value, dt.date) else whole_number(value)


def micros_of(time: dt.date) -> int:
    """Microseconds since the epoch of a date, which is its midnight, or of a datetime, in UTC if it does not say.

    >>> micros_of(dt.date(1970, 1, 2))
    86400000000
    """
    at = time if isinstance(time, dt.datetime) else dt.datetime(time.year, time.month, time.day)
    return ((at if at.tzinfo else at.replace(tzinfo=dt.UTC)) - EPOCH) // dt.timedelta(microseconds=1)


def whole_number(value: Any) -> Any:
    """The whole number that a decimal or a float equals, where a float tells it from its neighbours; other values as
    they are.

    >>> whole_number(Decimal("7.00")), whole_number(Decimal("7.5")), whole_number(7.0)
    (7, Decimal('7.5'), 7)
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_IN_DOUBLES:
        return int(value)
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value():
        return int(value)
    return value


def shown(value: object) -> str:
    """A value as people write it, text in quotes.

    >>> shown(Decimal("7.50")), shown("7"), shown(dt.date(2026, 3, 1))
    ('7.50', "'7'", '2026-03-01')
    """
    return str(value) if isinstance(value, Decimal | dt.date | dt.time) else repr(value)


def _whole_number(value: object) -> int | None:
    value = whole_number(value)
    if value is None or type(value) is int:
        return value
    if isinstance(value, dt.date):
        return micros_of(value)
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    raise ValueError("not a whole number")
