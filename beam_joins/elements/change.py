"""``Change``, one change of one row, and ``Dropped``, a record that was not applied.

A **table** is a collection of changes. Its content at position p is the rows after all changes up to and
including p; see :func:`beam_joins.elements.content.content`.
"""

from typing import Any, Generic, NamedTuple, TypeVar

from beam_joins.elements.iso_times import NO_TIME
from beam_joins.elements.parameters import subscripted

K = TypeVar("K")
V = TypeVar("V")


class Change(NamedTuple, Generic[K, V]):
    """One change of one row of a table: ``old`` became ``new``.

    ``old is None`` is an insert, ``new is None`` a delete (a tombstone). ``None`` is therefore never a value.

    ``timestamp`` is the event time in microseconds since the epoch. ``position`` is an integer that orders
    the changes of all tables of one join: the event time, or a commit sequence. ``(key, position)`` is unique
    in a table.

    >>> Change("k", None, "v", timestamp=1_000_000, position=7).is_delete
    False
    >>> Change("k", None, "v", timestamp=NO_TIME, position=7)
    Change(key='k', old=None, new='v', timestamp=None, position=7)
    """

    key: K
    old: V | None
    new: V | None
    timestamp: int
    position: int

    @classmethod
    def __class_getitem__(cls, subscript: Any) -> type["Change[Any, Any]"]:  # type: ignore[override]
        """The class ``Change[K, V]``, which a Beam collection keeps as its element type: every change is an
        instance of it.
        """
        return subscripted(cls, subscript)

    @property
    def is_delete(self) -> bool:
        """True if the change deletes the row."""
        return self.new is None

    def __repr__(self) -> str:
        """The fields, the time and position of a record without a time as None."""
        return _shown(self)


def two_changes(key: Any, position: int) -> ValueError:
    """The error for a collection that is no table because one row changes twice at one position.

    >>> two_changes("k", 5)
    ValueError("the table has two changes of key 'k' at position 5: make it with TableFromChangelog, which keeps one")
    """
    return ValueError(
        f"the table has two changes of key {key!r} at position {position}: make it with TableFromChangelog, which keeps one"
    )


class Dropped(NamedTuple):
    """A record that a transform could not apply, with the reason.

    ``reason`` is one of the words that the operator documents (``"null_key"``, ``"null_foreign_key"``, ...),
    ``record`` the record as it came in, ``timestamp`` its event time in microseconds.

    >>> Dropped("null_key", {"id": None}, 0).reason
    'null_key'
    """

    reason: str
    record: Any
    timestamp: int

    def __repr__(self) -> str:
        """The fields, the time of a record without one as None."""
        return _shown(self)


def _shown(fields: Change[Any, Any] | Dropped) -> str:
    shown = fields._asdict()
    shown |= {name: None for name in ("timestamp", "position") if shown.get(name) == NO_TIME}
    return f"{type(fields).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
