"""The works: what each contestant computes, from which tables, into which columns."""

from dataclasses import dataclass
from typing import Final

BASE_MICROSECONDS: Final = 1_700_000_000_000_000
"""The time of position 0, in microseconds since the epoch."""
STREAM_MICROSECONDS: Final = 100_000_000_000
"""The span of the streams' times, in microseconds (100,000 s)."""
WINDOW_MICROSECONDS: Final = 3_000_000_000
"""A view and a click match when their times differ by at most this, in microseconds (3,000 s)."""

CHANGELOG: Final = ("id", "position", "deleted")


@dataclass(frozen=True)
class Work:
    """One join to compute. ``name`` is what ``--work`` takes, ``columns`` those of the result."""

    name: str
    meaning: str
    tables: tuple[str, str]
    columns: tuple[str, ...]


WORKS: Final = {
    work.name: work
    for work in (
        Work(
            "fk-uniform",
            "foreign-key join, whole changelog, customers evenly referred to",
            ("orders", "customers"),
            (*CHANGELOG, "amount", "name"),
        ),
        Work(
            "fk-zipf",
            "foreign-key join, whole changelog, few customers with most orders",
            ("orders", "customers"),
            (*CHANGELOG, "amount", "name"),
        ),
        Work("fk-final", "foreign-key join, final table only", ("orders", "customers"), ("id", "amount", "name")),
        Work("tables", "outer join of two tables on their key, whole changelog", ("left", "right"), (*CHANGELOG, "a", "b")),
        Work("streams", "inner join of two streams by key and time", ("views", "clicks"), ("key", "view", "click", "ts")),
        Work("changelog", "old and new values of a table's changes", ("left", "right"), ("id", "position", "old", "new")),
    )
}
"""All works by name. ``changelog`` uses the left table only."""
