"""The words in the operation column of a changelog that mean a delete, an insert or an update."""

import re
from collections.abc import Iterable
from typing import Any, Final

DELETES: Final = frozenset(["d", "delete", "deleted", "remove", "removed", "t", "truncate", "true", "-d"])
"""The words for a delete by default: those of Debezium, Maxwell, GoldenGate, DMS, DynamoDB and Flink, and true."""
UPSERTS: Final = frozenset(
    {
        *("c", "create", "r", "read", "snapshot", "i", "insert", "u", "update", "upsert", "replace", "modify", "f", "false"),
        *("update_postimage", "+i", "+u"),
    }
)
"""The words for an insert or an update; the last are those of Delta and Flink, whose feeds also have old values."""
NULL: Final = "null"
NOT_NULL: Final = "not-null"
"""In the place of a word for a delete: any value but null is one, such as the time when a row was deleted."""
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(t| |$)")


def word(value: object) -> str:
    """A value as a word of these lists: its text in lower case, ``null`` for ``None``.

    >>> word("D"), word(True), word(None)
    ('d', 'true', 'null')
    """
    return NULL if value is None else str(value).lower()


def deletes_by(text: str, deletes: frozenset[str], upserts: frozenset[str]) -> bool | None:
    """Whether a word deletes its row, None if it is in neither list. In a column where only null means an
    upsert, a time means a delete: it is when the row was deleted.

    >>> [deletes_by(each, DELETES, frozenset({"null"})) for each in ("null", "2026-03-01t09:00:00z", "x")]
    [False, True, None]
    >>> [deletes_by(each, frozenset({NOT_NULL}), frozenset({"null"})) for each in ("null", "5")]
    [False, True]
    """
    if text in deletes or text in upserts:
        return text in deletes
    is_mark = NOT_NULL in deletes or (upserts == {NULL} and _TIME.match(text))
    return True if text != NULL and is_mark else None


class Deletes:
    """Decides by a field's value whether a record deletes its row; an unknown word is an error.

    >>> deletes = Deletes("op", ["d", "t"])
    >>> deletes("D"), deletes("u")
    (True, False)
    >>> deletes("x")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: apply_as_deletes: op is 'x', which is neither among the values that mean delete (d, t) nor
        a known word for an insert or an update (+i, +u, c, create, f, false, i, insert, modify, r, read, replace,
        snapshot, u, update, update_postimage, upsert): add it to the values, or give a function of the record
    """

    def __init__(self, field: str, values: Iterable[Any]) -> None:
        self.field = field
        self._deletes = frozenset(map(word, values))
        self._upserts = frozenset({NULL}) if NOT_NULL in self._deletes else UPSERTS - self._deletes

    def __call__(self, value: Any) -> bool:
        """Whether the value means a delete; raises ``ValueError`` for an unknown word."""
        if (means := deletes_by(word(value), self._deletes, self._upserts)) is not None:
            return means
        raise ValueError(
            f"apply_as_deletes: {self.field} is {value!r}, which is neither among the values that mean delete"
            f" ({', '.join(sorted(self._deletes))}) nor a known word for an insert or an update ({', '.join(sorted(self._upserts))}):"
            " add it to the values, or give a function of the record"
        )
