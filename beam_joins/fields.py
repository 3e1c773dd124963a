"""How a user names a field of a record: by its name, by several names, or by a function."""

import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from beam_joins.operations import Deletes

Field = str | Callable[[Any], Any]
Fields = Field | Sequence[str]
"""A field, several fields by name, or a function that gives one value or a tuple of several."""

_SIGN = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ONLY_INT = frozenset({int})


def field(record: Any, name: str) -> Any:
    """The field of a mapping or an object; raises ``ValueError``, naming the fields that there are.

    >>> field({"id": 7}, "id")
    7
    """
    try:
        return record[name] if isinstance(record, Mapping) else getattr(record, name)
    except (KeyError, AttributeError):
        if isinstance(record, pa.Table | pa.RecordBatch):
            raise ValueError(
                "an Arrow batch came where a record was expected: say what the collection is of, with .with_output_types(pyarrow.Table)"
            ) from None
        there = list(record) if isinstance(record, Mapping) else [n for n in dir(record) if not n.startswith("_")]
        raise ValueError(f"a record has no column {name!r}; it has {', '.join(map(str, there)) or 'none'}") from None


def getter(option: str, spec: Field) -> Callable[[Any], Any]:
    """The function for a field name, or the given function; raises ``ValueError`` naming the option.

    >>> getter("key", "id")({"id": 7})
    7
    """
    if callable(spec):
        return spec
    if isinstance(spec, str) and spec:
        return lambda record: field(record, spec)
    raise ValueError(f"{option}={spec!r}: give a field name or a function of the record")


def of_row(option: str, spec: str | Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function of key and value for a field name of the value, or the given function; raises ``ValueError`` naming the option.

    >>> of_row("foreign_key", "by")("key", {"by": "ann"})
    'ann'
    """
    if callable(spec):
        return spec
    if isinstance(spec, str) and spec:
        return lambda key, value: field(value, spec)
    raise ValueError(f"{option}={spec!r}: give a function of key and value, or the name of a field of the value")


def key_getter(spec: Field | Sequence[str]) -> Callable[[Any], Any]:
    """As :func:`getter`; several names make a tuple, or ``None`` if one of its parts is ``None``.

    >>> key_getter(["a", "b"])({"a": 1, "b": None}) is None
    True
    """
    return place_getter("key", spec)


def micros(time: Any) -> int:
    """Microseconds since the epoch of an int (which is that already), a Beam timestamp, or a datetime with a time zone.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if isinstance(time, int):
        return time
    if type(time).__name__ == "Timestamp" and isinstance(micros_of_beam := getattr(time, "micros", None), int):
        return int(micros_of_beam)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    raise ValueError(
        f"timestamp_by gave {time!r} of type {type(time).__name__}: give microseconds since the epoch as an int, a datetime with a"
        " time zone, or a Beam Timestamp"
    )


def names_of(option: str, spec: Any, function: str = "of the record") -> tuple[str, ...] | None:
    """The names in a list of field names, ``None`` for a single name or a function; raises ``ValueError`` naming the option.

    >>> names_of("sequence_by", ["commit_lsn", "lsn"])
    ('commit_lsn', 'lsn')
    """
    if callable(spec) or (isinstance(spec, str) and spec):
        return None
    names = tuple(spec) if isinstance(spec, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{option}={spec!r}: give a field name, a list of field names, or a function {function}")
    return names


def place_getter(option: str, spec: Fields) -> Callable[[Any], Any]:
    """As :func:`getter`; several names give a tuple, or ``None`` if one of its parts is ``None``."""
    names = names_of(option, spec)
    return getter(option, spec) if names is None else _tuple_getter(names)  # type: ignore[arg-type]  # else it is a field


def place_of_row(option: str, spec: Fields | Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """As :func:`of_row`; several names of fields of the value give a tuple, or ``None`` if one of its parts is ``None``."""
    names = names_of(option, spec, "of key and value")
    if names is None:
        return of_row(option, spec)  # type: ignore[arg-type]
    of_value = _tuple_getter(names)
    return lambda key, value: of_value(value)


def place(option: str, given: Any) -> tuple[int, bytes] | None:
    """Position and order within it, of a sequence of one or several numbers; ``None`` if one is missing.

    Raises ``ValueError`` if one is no whole number of 64 bits.

    >>> place("sequence_by", 7), place("sequence_by", (7, None))
    ((7, b''), None)
    """
    if given is None:
        return None
    if not isinstance(given, tuple | list):
        return position(given), b""
    if not given:
        raise ValueError(f"{option} gave an empty tuple: the first of its numbers is the position")
    if _ONLY_INT.issuperset(map(type, given)):
        return given[0], order_bytes(given[1:]) if len(given) > 1 else b""
    if None in given:
        return None
    first, *within = map(position, given)
    return first, order_bytes(within)


def order_bytes(numbers: Iterable[int]) -> bytes:
    """Whole numbers of 64 bits as bytes that compare as the tuple of the numbers does; raises ``ValueError`` for a larger one.

    >>> order_bytes([1, -1]) < order_bytes([1, 0]) < order_bytes([2, -1])
    True
    """
    biased = [number + _SIGN for number in numbers]
    try:
        return struct.pack(f">{len(biased)}Q", *biased)
    except struct.error:
        raise ValueError("a number that orders changes does not fit in 64 bits: scale the sequence down") from None


def tie_order(given: Any) -> bytes:
    """The order that ``tie_break_by`` gives: that of one whole number, or of a tuple of several; none, the smallest, where one is missing.

    Raises ``ValueError`` for anything else.
    """
    numbers = given if isinstance(given, tuple | list) else (given,)
    if _ONLY_INT.issuperset(map(type, numbers)):
        return order_bytes(numbers)
    return b"" if None in numbers else order_bytes(position(number, "tie_break_by") for number in numbers)


def position(sequence: Any, option: str = "sequence_by") -> int:
    """The position that ``sequence_by`` gave; raises ``ValueError`` if it is no whole number.

    >>> position(7)
    7
    """
    try:
        return operator.index(sequence)
    except TypeError:
        raise ValueError(
            f"{option} gave {sequence!r} of type {type(sequence).__name__}: a position is a whole number, so turn it into an int"
        ) from None


def _tuple_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...] | None]:
    def get(record: Any) -> tuple[Any, ...] | None:
        values = tuple([field(record, name) for name in names])
        return None if None in values else values

    return get


def names_in(spec: Any) -> Iterable[str]:
    """The names of the fields in an option; none in a function.

    >>> names_in("id"), names_in(["commit_lsn", "lsn"]), list(names_in({"op": ["d"]}))
    (['id'], ['commit_lsn', 'lsn'], ['op'])
    """
    if isinstance(spec, str):
        return [spec]
    return spec if isinstance(spec, Sequence | Mapping) else ()


Deleting = Field | Mapping[str, Sequence[Any]]
"""What deletes a row: a field that is true, a function, or a field and its values that mean delete."""


def delete_getter(spec: Deleting) -> Callable[[Any], Any]:
    """The function that ``apply_as_deletes`` stands for; raises ``ValueError`` in the run for a value whose meaning is not known.

    >>> delete_getter("deleted")({"deleted": None}), delete_getter({"op": ["d", "t"]})({"op": "t"})
    (False, True)
    """
    if callable(spec):
        return spec
    deletes = deletes_of(spec)
    name = spec if isinstance(spec, str) else next(iter(spec))
    value_of = getter("apply_as_deletes", name)
    if deletes is not None:
        return lambda record: deletes(value_of(record))

    def flag(record: Any) -> bool:
        value = value_of(record)
        if not isinstance(value, bool | None):
            raise ValueError(
                f"apply_as_deletes={name!r}: the field should be true or false, but is {value!r}: name the values that mean delete,"
                f" as in {{{name!r}: ['d']}}, or give a function of the record"
            )
        return bool(value)

    return flag


def deletes_of(spec: Any) -> Deletes | None:
    """Which values of a field mean delete, ``None`` if the field itself is true or false; raises ``ValueError`` for a wrong option."""
    if isinstance(spec, str) and spec:
        return None
    wrong = (
        f"apply_as_deletes={spec!r}: give a function that is true for an element that deletes its row, the name of a field that is, or"
    )
    if not isinstance(spec, Mapping) or len(spec) != 1:
        raise ValueError(f"{wrong} one field and the list of its values that mean delete, such as {{'op': ['d', 't']}}")
    ((name, values),) = spec.items()
    if (
        not isinstance(name, str)
        or not name
        or isinstance(values, str | bytes)
        or not isinstance(values, Sequence | Set)
        or not values
    ):
        raise ValueError(f"{wrong} one field and the list of its values that mean delete, such as {{'op': ['d', 't']}}")
    return Deletes(name, values)
