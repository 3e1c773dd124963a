"""Values of every kind that a key can be of, and when two of them are one key: Python's equality, with the
exceptions written out.
"""

import datetime as dt
import enum
import uuid
from dataclasses import InitVar, dataclass, field, fields, is_dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import apache_beam as beam
import numpy as np
from apache_beam.utils.timestamp import Timestamp
from hypothesis import strategies as st


class Pair(NamedTuple):
    one: Any
    other: Any


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 255


class Word(enum.StrEnum):
    A = "a"


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    ALL = 7


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Plain:
    one: Any
    other: Any = None


class Derived(Plain):
    """Equal to no Plain."""


@dataclass(frozen=True)
class Frozen:
    one: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    one: Any
    size: int = field(default=0, compare=False)


@dataclass
class Computed:
    one: Any
    twice: InitVar[int] = 2
    doubled: Any = field(init=False)
    seen: list[int] = field(default_factory=list, compare=False)
    cached: Any = field(init=False, compare=False, repr=True)

    def __post_init__(self, twice: int) -> None:
        self.doubled, self.cached = (self.one, twice), object()


WHOLE = [0, 1, -1, 7, 255, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**70, -(2**70), 10**400, -(10**400)]
FRACTIONS = [0.5, 0.1, -0.1, 1e-300, -5e-324, 1.5, float("inf"), float("-inf"), float("nan"), -0.0, 1e300]
DECIMALS = [
    Decimal(text) for text in ("0.5", "0.1", "0.10", "-0", "0E+20", "1E+30", "1E-30", "-1.50", "NaN", "sNaN", "Infinity", "-Infinity")
]
NUMPY = [
    np.int8(7),
    np.uint8(255),
    np.int64(-1),
    np.uint64(2**63),
    np.float16(0.5),
    np.float32(0.1),
    np.float64(7),
    np.longdouble(0.5),
]
NUMPY += [np.bool_(True), np.float64("nan"), np.str_("a"), np.bytes_(b"a")]
ENUMS = [*Colour, *Level, Word.A, Access(0), *Access, Access.READ | Access.WRITE, Bits(3), Bits(0)]
BERLIN, UTC = ZoneInfo("Europe/Berlin"), dt.UTC
ZONES = st.sampled_from(
    [None, UTC, BERLIN, ZoneInfo("America/New_York"), dt.timezone(dt.timedelta(hours=-11, minutes=-30, microseconds=1))]
)
NOON = dt.datetime(2020, 10, 25, 12)
TWICE = dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN)  # the clock shows it twice
TIMES = [
    NOON,
    NOON.replace(tzinfo=UTC),
    NOON.replace(tzinfo=UTC).astimezone(BERLIN),
    TWICE,
    TWICE.replace(fold=1),
    TWICE.astimezone(UTC),
]
TIMES += [
    dt.datetime.min,
    dt.datetime.max,
    dt.date(2020, 10, 25),
    dt.date.min,
    dt.date.max,
    dt.time(2),
    dt.time(2, fold=1),
    dt.time.max,
]
TIMES += [dt.timedelta(0), dt.timedelta.min, dt.timedelta.max, dt.timedelta(days=150_000_000), Timestamp(7), Timestamp(micros=-1)]
TIMES += [np.datetime64("2020-10-25T12"), np.datetime64("2020-10-25T12", "us"), np.datetime64("2020-10-25"), np.timedelta64(0, "D")]
TEXTS = ["", "a", "7", "é", "e\u0301", "\ud83d\ude00", "\U0001f600", "\udc80", b"", b"a", b"7", bytearray(b"a"), memoryview(b"a")]
OTHERS = [None, uuid.UUID(int=7), uuid.UUID(int=0)]

SCALARS = st.one_of(
    st.sampled_from([*WHOLE, *map(Decimal, WHOLE), *FRACTIONS, *DECIMALS, *NUMPY, True, False]),
    st.sampled_from([float(n) for n in WHOLE if abs(n) < 2**71 and int(float(n)) == n]),
    st.sampled_from(ENUMS),
    st.sampled_from(TIMES),
    st.sampled_from(TEXTS),
    st.sampled_from(OTHERS),
    st.integers() | st.floats() | st.decimals(places=3, allow_nan=False, allow_infinity=False, min_value=-9, max_value=9),
    st.text() | st.binary() | st.uuids() | st.dates() | st.times() | st.timedeltas(),
    st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29), timezones=ZONES),
)


def _contained(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pair = st.tuples(parts, parts)
    small = st.lists(parts, max_size=2)
    return st.one_of(
        small,
        small.map(tuple),
        pair.map(Pair._make),
        pair.map(lambda p: Plain(*p)),
        pair.map(lambda p: Derived(*p)),
        parts.map(Frozen),
        st.tuples(parts, st.integers(0, 2)).map(lambda p: Slotted(one=p[0], size=p[1])),
        parts.map(lambda part: Computed(part, 2)),
        st.dictionaries(SCALARS.filter(_hashable), parts, max_size=2),
        pair.map(lambda p: {"b": p[1], "a": p[0]}),
        pair.map(lambda p: {"a": p[0], "b": p[1]}),
        pair.map(lambda p: beam.Row(a=p[0], b=p[1])),
        pair.map(lambda p: beam.Row(b=p[1], a=p[0])),
        st.sets(SCALARS.filter(_hashable), max_size=2),
        st.frozensets(SCALARS.filter(_hashable), max_size=2),
    )


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


VALUES = st.recursive(SCALARS, _contained, max_leaves=4)


def one_key(one: Any, other: Any) -> bool:
    """Whether two values are one key: they are equal in Python, but for what the encoding's module says."""
    one, other = _plain(one), _plain(other)
    if _is_nan(one) or _is_nan(other):
        return _is_nan(one) and _is_nan(other)
    if type(one) is not type(other) and (is_dataclass(one) or is_dataclass(other) or Timestamp in (type(one), type(other))):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(one_key, one, other))
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return len(one) == len(other) and all(any(one_key(part, twin) for twin in other) for part in one)
    if isinstance(one, dict) and isinstance(other, dict):
        return one_key(frozenset(_Item(i) for i in one.items()), frozenset(_Item(i) for i in other.items()))
    if isinstance(one, beam.Row) and isinstance(other, beam.Row):
        return one_key(tuple(one.as_dict().items()), tuple(other.as_dict().items()))
    if is_dataclass(one):
        return one_key(_compared(one), _compared(other))
    return bool(one == other)


class _Item(tuple):
    """A name and its value, by which a dict is compared: values need no hash."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, f.name) for f in fields(value) if f.compare)


def _is_nan(value: Any) -> bool:
    return (isinstance(value, Decimal) and value.is_nan()) or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, set):
        return frozenset(value)
    return tuple(value) if isinstance(value, list) else value
