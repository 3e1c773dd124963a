"""How the database that a column comes from compares its values, where equal ones may have several texts."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.keys.key_columns import factorize
from beam_joins.keys.opaque import is_opaque, opaque_keys, python_keys

Form: TypeAlias = Callable[[pa.Array], pa.Array]
"""Gives values that are equal for the database one text, and others different ones; null for null."""


class Comparison(NamedTuple):
    """The forms in which the values of two columns are compared, ``None`` for the values themselves, and what is to be
    said of it, if anything.
    """

    left: Form | None = None
    right: Form | None = None
    note: str = ""


class ComparedColumn(Protocol):
    """A column of a database."""

    @property
    def words(self) -> str:
        """The column and its type."""

    def compared_with(self, other: Any) -> Comparison:
        """How the database compares the values with those of another column.

        Raises ``ValueError``, a sentence with a remedy, for columns that it compares otherwise than can be done here.
        """

    def made_one_with(self, other: Any) -> str:
        """The remedy for two columns of two types."""

    def compared_alone(self) -> None:
        """Raise ``ValueError``, a sentence with a remedy, for a column whose equal values may have several texts."""


Key: TypeAlias = tuple[ComparedColumn | None, ...]
"""The columns of a key, ``None`` for one that is not known."""


class ComparedTable(NamedTuple):
    """The columns of a table as their database compares them: those of its key, and of its values those that are columns of
    a database, by name; one that holds a key of several columns has these.
    """

    key: Key = ()
    values: tuple[tuple[str, Key], ...] = ()

    def columns(self, names: str | Sequence[str]) -> Key:
        """The columns of a name or several."""
        values = dict(self.values)
        return tuple(chain.from_iterable(values.get(name, (None,)) for name in ([names] if isinstance(names, str) else names)))

    def joined_with(self, right: "ComparedTable", joiner: Any) -> "ComparedTable":
        """The same of a joined table that has the key of this one, and the columns of a ``joiner``."""
        sides = {"left": dict(self.values), "right": dict(right.values)}
        values = dict[str, Key]()
        for name, column in joiner.items() if isinstance(joiner, Mapping) else ():
            side, _, of_side = column.partition(".") if isinstance(column, str) else ("", "", "")
            if of_side in sides.get(side, {}):
                values[name] = sides[side][of_side]
        return ComparedTable(self.key, tuple(values.items()))


def comparisons(left: Key, right: Key) -> list[Comparison]:
    """The comparisons of the columns of two keys, none for keys of unlike numbers of columns. Raises ``ValueError``."""
    pairs = zip(left, right, strict=True) if len(left) == len(right) else ()
    return [Comparison() if one is None or other is None else one.compared_with(other) for one, other in pairs]


def in_forms(keys: pa.Array, forms: Sequence[Form | None]) -> pa.Array:
    """Keys in the forms in which their columns are compared; of Python objects the texts alone have some.

    >>> import pyarrow.compute as pc
    >>> in_forms(pa.array(["A", None]), [pc.ascii_lower]).to_pylist()
    ['a', None]
    """
    if not any(forms):
        return keys
    if is_opaque(keys.type):
        return opaque_keys([_object_in_forms(key, forms) for key in python_keys(keys)])
    if not pa.types.is_struct(keys.type):
        (form,) = forms
        return keys if form is None else form(keys)
    names = [field.name for field in keys.type]
    parts = [part if form is None else form(part) for part, form in zip(keys.flatten(), forms, strict=True)]
    return pa.StructArray.from_arrays(parts, names=names, mask=keys.is_null())


def _object_in_forms(key: Any, forms: Sequence[Form | None]) -> Any:
    if isinstance(key, tuple):
        return tuple(_object_in_forms(part, [form]) for part, form in zip(key, forms, strict=True))
    return forms[0](pa.array([key]))[0].as_py() if isinstance(key, str) and forms[0] is not None else key


def without_spellings(rows: pa.Table) -> pa.Table:
    """Rows of a changelog, without the deletes of keys that another text of the key replaces at the position.

    >>> rows = pa.table({"key": ["a", "a", "b"], "value": [None, 7, None], "position": [1, 1, 1]})
    >>> without_spellings(rows).to_pylist()
    [{'key': 'a', 'value': 7, 'position': 1}, {'key': 'b', 'value': None, 'position': 1}]
    """
    (codes,) = factorize(combine_chunks(rows["key"]))
    is_there = valid(combine_chunks(rows["value"]))
    places = np.stack([codes, rows["position"].to_numpy()], axis=1)
    _, place = np.unique(places, axis=0, return_inverse=True)
    place = place.reshape(-1)
    is_replaced = np.zeros(len(rows), np.bool_)
    is_replaced[place[is_there]] = True  # by place, of which there are at most as many as rows
    kept = is_there | ~is_replaced[place]
    return rows if kept.all() else rows.filter(pa.array(kept))
