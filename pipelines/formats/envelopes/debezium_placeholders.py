"""Replaces Debezium's placeholders for large values that did not change and are not in PostgreSQL's log
(``unavailable.value.placeholder``).
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import md5
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from beam_joins.pipelines.formats.types.exact_json import object_text
from beam_joins.transforms.connect.checks import text

T = TypeVar("T")

_DEFAULT: Final = "__debezium_unavailable_value"
_HEX: Final = "hex:"
_FAR_AWAY: Final = -99999999
_GEOMETRIES: Final = tuple(
    bytes.fromhex(text)
    for text in ("0101000020e6100000000000fc83d797c1000000fc83d797c1", "0101000020e61000000c21e7fdff7f66401842cefbff7f5640")
)
"""The geometries that stand for unavailable columns of PostGIS, in its extended binary form."""
_ABOUT_PLACES: Final = (b"AQEAACDm", b"0101000020", str(_FAR_AWAY).encode())
"""The bytes that occur in the JSON text of each of them."""
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def placeholders(unavailable_value: str | Sequence[str], format: str) -> tuple[str, ...]:
    """The placeholders for unchanged values, from the option.

    Raises ValueError for other values, and for a format that has none.
    """
    several = not isinstance(unavailable_value, str) and isinstance(unavailable_value, Sequence)
    named: tuple[Any, ...] = tuple(unavailable_value) if several else (unavailable_value,)
    for each in named:
        text("unavailable_value", each, "a placeholder, as in the connector's unavailable.value.placeholder")
    if named and format != "debezium":
        raise ValueError(f"unavailable_value= is for format='debezium': format={format!r} has no placeholders")
    return named


class Placeholders:
    """Recognizes a placeholder in each form that Debezium gives it, by the column's type, and others that are
    configured.

    Of the default or another ``unavailable.value.placeholder``: text; bytes, in base64 or as hexadecimal
    digits; an array of one such text, or of the UUID that is made of it; an array of its bytes as numbers; a
    map of it; and what stands for geometries and points. ``others`` may also be arrays in JSON, such as
    ``[0]``, which older versions give for arrays of numbers.

    >>> found = Placeholders(["NA", "[0]"])
    >>> [found.stands_for(value) for value in ("NA", "na", [0], [1], "__debezium_unavailable_value")]
    [True, False, True, False, True]
    """

    def __init__(self, others: Iterable[str] = ()) -> None:
        self._texts: set[str | bytes] = set()
        self._maps: list[dict[str, str]] = []
        self._arrays: list[list[Any]] = []
        self._octets: list[list[int]] = []
        for placeholder in (_DEFAULT, *others):
            if (array := _array(placeholder)) is not None:
                self._arrays.append(array)
            else:
                self._add(placeholder)
        self._geometries = {
            form for octets in _GEOMETRIES for form in (octets, b64encode(octets).decode(), octets.hex(), octets.hex().upper())
        }
        texts = [text for text in self._texts if isinstance(text, str) and not text.startswith("{")]  # maps hold the text itself
        self._needles = (
            *(msgspec.json.encode(text)[1:-1] for text in texts),
            *(b"[%b%d" % (quote, octets[0]) for octets in self._octets if octets for quote in (b"", b'"')),
            *(msgspec.json.encode(array).partition(b",")[0].rstrip(b"]") for array in self._arrays),
            *_ABOUT_PLACES,
        )

    def _add(self, placeholder: str) -> None:
        octets = bytes.fromhex(placeholder.removeprefix(_HEX)) if placeholder.startswith(_HEX) else placeholder.encode()
        self._texts.update(_forms(octets))
        self._octets.append(list(octets))
        if not placeholder.startswith(_HEX):
            self._texts.add(placeholder)
            self._maps.append({placeholder: placeholder})
            self._texts.add(msgspec.json.encode({placeholder: placeholder}).decode())

    def may_be_in(self, text: bytes) -> bool:
        """Whether the JSON text of a row may have a placeholder."""
        return any(needle in text for needle in self._needles)

    def stands_for(self, value: Any) -> bool:
        """Whether a value is a placeholder."""
        if isinstance(value, str | bytes):
            return value in self._texts or value in self._geometries
        if isinstance(value, list):
            return value in self._arrays or (len(value) == 1 and self._is_text(value[0])) or _numbers(value) in self._octets
        if isinstance(value, Mapping):
            return value in self._maps or self._is_geometry(value.get("wkb")) or (value.get("x") == value.get("y") == _FAR_AWAY)
        return False

    def _is_text(self, value: Any) -> bool:
        return isinstance(value, str | bytes) and value in self._texts

    def _is_geometry(self, value: Any) -> bool:
        return isinstance(value, str | bytes) and value in self._geometries

    def cut(self, row: bytes, before: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The JSON text of a row with the values that ``before`` has in place of placeholders, and the names
        of the columns that it does not have.

        >>> Placeholders().cut(b'{"id":1,"bio":"__debezium_unavailable_value"}', b"null")
        (b'{"id":1}', ('bio',))
        """
        if not self.may_be_in(row) or not row.startswith(b"{"):
            return row, ()
        members = _MEMBERS.decode(row)
        old = _MEMBERS.decode(before) if before.startswith(b"{") else {}
        whole, unchanged = _replaced(members, old, lambda raw: self.stands_for(msgspec.json.decode(raw)))
        return (row if whole is members else object_text(whole, whole.values())), unchanged

    def replaced(self, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The same of a record."""
        return _replaced(row, before or {}, self.stands_for)


def _replaced(
    row: Mapping[str, T], before: Mapping[str, T], is_unavailable: Callable[[T], bool]
) -> tuple[Mapping[str, T], tuple[str, ...]]:
    absent = [name for name, value in row.items() if is_unavailable(value)]
    if not absent:
        return row, ()
    earlier = {name: before[name] for name in absent if name in before and not is_unavailable(before[name])}
    whole = {name: earlier.get(name, value) for name, value in row.items() if name in earlier or name not in absent}
    return whole, tuple(name for name in absent if name not in earlier)


def _forms(octets: bytes) -> list[str | bytes]:
    """Bytes as they are, in base64, as hexadecimal digits, and the UUID that Java makes of them."""
    digest = md5(octets, usedforsecurity=False).digest()
    return [octets, b64encode(octets).decode(), octets.hex(), str(UUID(bytes=digest, version=3))]


def _array(text: str) -> list[Any] | None:
    """An array in JSON, or None for other text."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, list) else None


def _numbers(values: list[Any]) -> list[float] | None:
    """Numbers, which may be written as text."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return None
