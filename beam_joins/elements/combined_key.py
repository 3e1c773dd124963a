"""``CombinedKey``: the key of a joined pair, foreign key first, so that one prefix selects all rows of a
foreign key (KIP-213).
"""

from typing import Any, Generic, NamedTuple, TypeVar

FK = TypeVar("FK")
PK = TypeVar("PK")


class CombinedKey(NamedTuple, Generic[FK, PK]):
    """The key of a row of a one-to-many join: the foreign key, and the primary key of the row that refers by
    it.

    >>> CombinedKey("A0", "B1").primary_key
    'B1'
    """

    foreign_key: FK
    primary_key: PK

    @classmethod
    def __class_getitem__(cls, _: Any) -> type["CombinedKey[Any, Any]"]:  # type: ignore[override]
        return cls  # as Change does
