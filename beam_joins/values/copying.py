"""Copies mutable values, so that a function may modify its arguments or an earlier result."""

import copy
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any
from uuid import UUID

IMMUTABLE = frozenset(
    {type(None), bool, int, float, complex, str, bytes, range, date, datetime, time, timedelta, timezone, Decimal, Fraction, UUID}
)
_immutable = IMMUTABLE.issuperset
LAZY = frozenset({GeneratorType, CoroutineType, AsyncGeneratorType, map, filter, zip})
"""The types of results that give their values later and are no values themselves."""


def require_value(value: Any) -> None:
    """Raise ``ValueError`` for a function's result that gives values later and is no value itself, or is ``NotImplemented``.

    >>> require_value(n for n in range(3))
    Traceback (most recent call last):
    ValueError: a function gave a generator, which is no value: return the value itself
    """
    if type(value) in LAZY:
        raise ValueError(f"a function gave a {type(value).__name__.replace('_', ' ')}, which is no value: return the value itself")
    if value is NotImplemented:
        raise ValueError("a function gave NotImplemented, which is no value: return one, or raise an exception")


def copied(value: Any) -> Any:
    """A copy that shares nothing mutable with the value; immutable values are returned as they are.

    Raises ``ValueError`` for a value that :func:`copy.deepcopy` cannot copy.

    >>> row = {"id": 7, "tags": ["new"]}
    >>> copied(row)["tags"].append("read")
    >>> row
    {'id': 7, 'tags': ['new']}
    """
    kind = type(value)
    if kind in IMMUTABLE:
        return value
    if kind is dict:
        return value.copy() if _immutable(map(type, value.values())) else {name: copied(part) for name, part in value.items()}
    if kind is list:
        return value.copy() if _immutable(map(type, value)) else [copied(part) for part in value]
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copiers[kind] = _copier(kind)
    return copier(value)


def _copier(kind: type) -> Callable[[Any], Any]:
    """The function that copies values of a type, chosen once for each type."""
    if issubclass(kind, Enum | type):
        return lambda value: value
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return lambda value: value if _immutable(map(type, value)) else tuple.__new__(kind, map(copied, value))
    if kind in (set, frozenset):
        return lambda value: kind(value) if _immutable(map(type, value)) else _deep(value)
    if _has_fields_only(kind):
        return _copied_object
    return _deep


def _has_fields_only(kind: type) -> bool:
    """Whether everything that an instance consists of is in its ``__dict__``, and nothing says how it is to
    be copied.
    """
    plain = (
        kind.__flags__ & 1 << 9  # made by a class statement
        and kind.__basicsize__ == _Plain.__basicsize__
        and all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__", "__getstate__"))
    )
    return bool(plain) and not any(
        hasattr(kind, name) for name in ("__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    )


class _Plain:
    pass


def _copied_object(value: Any) -> Any:
    fields = value.__dict__
    result = object.__new__(type(value))
    result.__dict__.update(fields if _immutable(map(type, fields.values())) else copied(dict(fields)))
    return result


def _deep(value: Any) -> Any:
    require_value(value)
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise ValueError(
            f"a value of type {type(value).__name__} cannot be copied ({error}): use types that copy.deepcopy copies"
        ) from error


_copiers: dict[type, Callable[[Any], Any]] = {}
