"""What a core is fed with: the events of one routing key, position by position."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


_SIGN = 1 << 63


class Record(NamedTuple):
    """One record of one input, its key and value encoded: what a core sees and what travels between workers.

    ``value is None`` is a tombstone. ``timestamp`` is in microseconds. ``input`` numbers the operator's inputs; at one position
    input 0 is applied before input 1. ``within`` orders the records of one key and position, ``tie`` those that ``within`` and the time
    leave in no order; both compare as bytes (:func:`order_bytes`).

    >>> Record(b"k", None, timestamp=1_000_000, position=7).value is None
    True
    """

    key: bytes
    value: bytes | None
    timestamp: int
    position: int
    input: int = 0
    within: bytes = b""
    tie: bytes = b""


def order_bytes(numbers: Iterable[int]) -> bytes:
    """Whole numbers of 64 bits as bytes that compare as the tuple of the numbers does; raises ``ValueError`` for a larger one.

    >>> order_bytes([1, -1]) < order_bytes([1, 0]) < order_bytes([2, -1])
    True
    """
    biased = [number + _SIGN for number in numbers]
    try:
        return struct.pack(f">{len(biased)}Q", *biased)
    except struct.error:
        raise ValueError("a number that orders changes does not fit in 64 bits: scale the sequence down") from None


class LeftOut(Exception):
    """Raised by a function that is given to a core: what it was called with has no part in the result."""


class Core(Protocol[In, Out]):
    """The meaning of an operator for one routing key: a small object that owns its state and needs no runner.

    ``advance`` is called once per position, in rising order, with all events of that position, ordered by input. A transaction
    is therefore seen whole or not at all, and nothing depends on the order of arrival.
    """

    def advance(self, position: int, events: Sequence[In]) -> Iterator[Out]:
        """Apply the events of one position and give what follows from them."""
        ...
