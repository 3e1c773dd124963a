"""The words in the operation column of a changelog that mean a delete, an insert or an update."""

from collections.abc import Iterable
from typing import Any, Final

DELETES: Final = frozenset(["d", "delete", "deleted", "remove", "removed", "t", "truncate", "true"])
"""The words for a delete by default: those of Debezium, Maxwell, GoldenGate, DMS and DynamoDB, and true."""
UPSERTS: Final = frozenset(
    ["c", "create", "r", "read", "snapshot", "i", "insert", "u", "update", "upsert", "replace", "modify", "f", "false"]
)
"""The words for an insert or an update."""


def word(value: object) -> str:
    """A value as a word of these lists: its text in lower case, ``null`` for ``None``.

    >>> word("D"), word(True), word(None)
    ('d', 'true', 'null')
    """
    return "null" if value is None else str(value).lower()


class Deletes:
    """Decides by a field's value whether a record deletes its row; an unknown word is an error.

    >>> deletes = Deletes("op", ["d", "t"])
    >>> deletes("D"), deletes("u")
    (True, False)
    >>> deletes("x")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: apply_as_deletes: op is 'x', which is neither among the values that mean delete (d, t) nor
        a known word for an insert or an update (c, create, f, false, i, insert, modify, r, read, replace,
        snapshot, u, update, upsert): add it to the values, or give a function of the record
    """

    def __init__(self, field: str, values: Iterable[Any]) -> None:
        self.field = field
        self._deletes = frozenset(map(word, values))
        self._upserts = UPSERTS - self._deletes

    def __call__(self, value: Any) -> bool:
        """Whether the value means a delete; raises ``ValueError`` for one that is no known word."""
        text = word(value)
        if text in self._deletes:
            return True
        if text in self._upserts:
            return False
        raise ValueError(
            f"apply_as_deletes: {self.field} is {value!r}, which is neither among the values that mean delete"
            f" ({', '.join(sorted(self._deletes))}) nor a known word for an insert or an update ({', '.join(sorted(self._upserts))}):"
            " add it to the values, or give a function of the record"
        )
