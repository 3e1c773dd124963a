"""MongoDB's extended JSON, canonical or relaxed, where one value has several texts: numbers, and what identifies a document."""

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from beam_joins.elements.iso_times import micros_of_text
from beam_joins.pipelines.formats.types.exact_json import dumps_line

_NUMBERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "$numberInt": int,
    "$numberLong": int,
    "$numberDouble": float,
    "$numberDecimal": Decimal,
}
_UUID: Final = "04"


def in_python(value: Any) -> Any:
    """The value with Python's numbers in place of the objects that stand for some, at any depth.

    >>> in_python({"_id": {"$numberLong": "5"}, "of": [{"$numberDouble": "1.5"}, {"$oid": "65f0"}]})
    {'_id': 5, 'of': [1.5, {'$oid': '65f0'}]}
    """
    if isinstance(value, list):
        return list(map(in_python, value))
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (made := _NUMBERS.get(next(iter(value)))) is not None:
        with suppress(ValueError, InvalidOperation, TypeError):
            return made(next(iter(value.values())))
    return {name: in_python(each) for name, each in value.items()}


def identity(value: dict[str, Any]) -> Any:
    """The number that an object of a key or a reference stands for, or the text of the value: the same for all texts of one
    value. The order of the members of a document counts, as in MongoDB.

    >>> identity({"$numberDouble": "5.0"}), identity({"$date": "1970-01-01T00:00:01Z"}), identity({"n": {"$numberLong": "1"}})
    (5.0, '{"$date":1000}', '{"n":1}')
    """
    number = in_python(value)
    return number if not isinstance(number, dict) else dumps_line(_plain(number))[:-1].decode()


def _plain(value: Any) -> Any:
    """The one form of a value that has several."""
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, float | Decimal):
        return int(value) if value == value // 1 else value
    if not isinstance(value, dict):
        return value
    with suppress(ValueError, OverflowError):
        value = _one_form(value)
    return {name: _plain(each) for name, each in value.items()}


def _one_form(value: dict[str, Any]) -> dict[str, Any]:
    match value:
        case {"$date": str(text), **others} if not others:
            value = {"$date": micros_of_text(text) // 1_000}
        case {"$uuid": str(text), **others} if not others:
            value = _binary(base64.b64encode(UUID(text).bytes).decode(), _UUID)
        case {"$binary": str(content), "$type": str(kind)}:
            value = _binary(content, kind)
        case {"$binary": {"base64": str(content), "subType": str(kind)}}:
            value = _binary(content, kind)
        case {"$oid": str(digits)}:
            value = {"$oid": digits.lower()}
    return value


def _binary(content: str, kind: str) -> dict[str, Any]:
    return {"$binary": {"base64": content, "subType": kind.zfill(2)}}
