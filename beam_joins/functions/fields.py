"""Fields of records as users name them: by a name, by several names, or by a function."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import pyarrow as pa

from beam_joins.options.operations import Deletes, word

Field = str | Callable[[Any], Any]
Fields = Field | Sequence[str]
"""A field, several fields by name, or a function that gives one value or a tuple of several."""


def field(record: Any, name: str) -> Any:
    """The field of a mapping or an object; raises ``ValueError`` that lists the record's fields.

    >>> field({"id": 7}, "id")
    7
    """
    try:
        return record[name] if type(record) is dict or isinstance(record, Mapping) else getattr(record, name)
    except (KeyError, AttributeError):
        if isinstance(record, pa.Table | pa.RecordBatch):
            raise ValueError(
                "an Arrow batch came where a record was expected: say what the collection is of, with "
                ".with_output_types(pyarrow.Table)"
            ) from None
        if not isinstance(record, Mapping) and type(record).__module__ == "builtins":
            rows = ": ReadChangelog reads the rows of files" if isinstance(record, str) else ": give a function in place of the name"
            raise ValueError(f"a record of type {type(record).__name__} has no column {name!r}{rows}") from None
        names = list(record) if isinstance(record, Mapping) else [n for n in dir(record) if not n.startswith("_")]
        raise ValueError(f"a record has no column {name!r}; it has {', '.join(map(str, names)) or 'none'}") from None


class OfField:
    """A function of a record that converts one of its fields with ``made``.

    >>> OfField("id", str)({"id": 7}), OfField("id").of_all([{"id": 7}, {"id": 8}])
    ('7', [7, 8])
    """

    def __init__(self, name: str, made: Callable[[Any], Any] | None = None) -> None:
        self._name = name
        self._made = made

    def __call__(self, record: Any) -> Any:
        """Of one record; raises ``ValueError`` as :func:`field` does."""
        value = field(record, self._name)
        return value if self._made is None else self._made(value)

    def of_all(self, records: Sequence[Any]) -> list[Any]:
        """The converted fields of many records."""
        if set(map(type, records)) != {dict} or not all(self._name in record for record in records):
            return list(map(self, records))
        values = [record[self._name] for record in records]
        return values if self._made is None else list(map(self._made, values))


def getter(
    option: str, spec: Fields | Callable[[Any, Any], Any], *, one: bool = False, of: str = "of the record"
) -> Callable[..., Any]:
    """The function for a field name, or the given function; several names, unless there may be only ``one``,
    give a tuple, or ``None`` if a part is ``None``.

    Raises ``ValueError`` naming the option.

    >>> getter("key", "id")({"id": 7}), getter("key", ["a", "b"])({"a": 1, "b": None})
    (7, None)
    """
    if callable(spec):
        return spec
    names = () if isinstance(spec, Mapping) else tuple(names_in(spec))
    if not names or not all(isinstance(name, str) and name for name in names) or (one and not isinstance(spec, str)):
        raise ValueError(f"{option}={spec!r}: give a field name{'' if one else ', a list of field names,'} or a function {of}")
    if isinstance(spec, str):
        return OfField(spec)
    return partial(_values_of, names)


def _values_of(names: Sequence[str], record: Any) -> tuple[Any, ...] | None:
    values = tuple([field(record, name) for name in names])
    return None if None in values else values


def of_row(option: str, spec: Fields | Callable[[Any, Any], Any], *, one: bool = False) -> Callable[[Any, Any], Any]:
    """The function of key and value for fields of the value, as :func:`getter`, or the given function.

    >>> of_row("foreign_key", "by")("key", {"by": "ann"})
    'ann'
    """
    of_value = getter(option, spec, one=one, of="of key and value")
    return of_value if callable(spec) else lambda key, value: of_value(value)


def names_in(spec: Any) -> Iterable[str]:
    """The names of the fields in an option; none in a function.

    >>> names_in("id"), names_in(["commit_lsn", "lsn"]), list(names_in({"op": ["d"]}))
    (['id'], ['commit_lsn', 'lsn'], ['op'])
    """
    if isinstance(spec, str):
        return [spec]
    return spec if isinstance(spec, Sequence | Mapping) else ()


Deleting = Field | Mapping[str, Sequence[Any]]
"""A rule for deletes: a field that is true, a function, or a field and its values that mean delete."""


Marking = Callable[[Any], Any] | Mapping[str, Sequence[Any]]
"""A rule for truncates or for inserts: a function, or a field and its values that mean one."""


def mark_getter(option: str, spec: Marking, means: str) -> Callable[[Any], Any]:
    """The function that ``apply_as_truncates`` or ``apply_as_inserts`` stands for; raises ``ValueError`` for
    a wrong option.

    >>> mark_getter("apply_as_truncates", {"op": ["t"]}, "empties the table")({"op": "T"})
    True
    """
    if callable(spec):
        return spec
    name, values = _field_and_values(spec)
    if not values:
        raise ValueError(
            f"{option}={spec!r}: give a function that is true for an element that {means}, or one field and the list of its values "
            "that mean so, such as {'op': ['t']}"
        )
    words = frozenset(map(word, values))
    return OfField(name, lambda value: word(value) in words)


def _field_and_values(spec: Any) -> tuple[str, Sequence[Any] | Set[Any]]:
    """The only field of a mapping and its values; no values for anything else."""
    name, values = next(iter(spec.items())) if isinstance(spec, Mapping) and len(spec) == 1 else ("", ())
    is_wrong = not isinstance(name, str) or not name or isinstance(values, str | bytes) or not isinstance(values, Sequence | Set)
    return ("", ()) if is_wrong else (name, values)


def delete_getter(spec: Deleting) -> Callable[[Any], Any]:
    """The function that ``apply_as_deletes`` stands for; raises ``ValueError`` in the run for a value whose
    meaning is not known.

    >>> delete_getter("deleted")({"deleted": None}), delete_getter({"op": ["d", "t"]})({"op": "t"})
    (False, True)
    """
    if callable(spec):
        return spec
    deletes = deletes_of(spec)
    (name,) = names_in(spec)
    if deletes is not None:
        return OfField(name, deletes)
    return OfField(name, partial(_flag, name))


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | None):
        raise ValueError(
            f"apply_as_deletes={name!r}: the field should be true or false, but is {value!r}: name the values that mean delete,"
            f" as in {{{name!r}: ['d']}}, or give a function of the record"
        )
    return bool(value)


def deletes_of(spec: Any) -> Deletes | None:
    """Which values of a field mean delete, ``None`` if the field itself is true or false; raises
    ``ValueError`` for a wrong option.
    """
    if isinstance(spec, str) and spec:
        return None
    name, values = _field_and_values(spec)
    if not values:
        raise ValueError(
            f"apply_as_deletes={spec!r}: give a function that is true for an element that deletes its row, the name of "
            "a field that is, or"
            " one field and the list of its values that mean delete, such as {'op': ['d', 't']}"
        )
    return Deletes(name, values)
