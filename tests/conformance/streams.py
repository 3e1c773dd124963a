"""What the joins of streams share: results as text."""

from tests.conformance.scenario import Input
from tests.reference import recomputed


def padded_pair(left: str | None, right: str | None) -> str:
    """A joined value as text."""
    return recomputed.pair("null" if left is None else left, right)


def unmatched(record: Input, text: str) -> tuple[int, str | None, str, int]:
    """The result of a record without a match."""
    return record.number, record.key, text, record.ts * 1000
