"""What travels between the two sides of a foreign-key join (Kafka's SubscriptionWrapper and
SubscriptionResponseWrapper).
"""

from enum import IntEnum
from typing import Literal, NamedTuple

How = Literal["inner", "left"]


class Instruction(IntEnum):
    """What the side of the foreign key is to do with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Forget the subscription; somebody else answers."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Forget the subscription and answer null, so that the result row goes."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Keep the subscription and answer in any case."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Keep the subscription and answer if there is a right row."""

    @property
    def deletes(self) -> bool:
        """True if the subscription ends."""
        return self is Instruction.DELETE_KEY_NO_PROPAGATE or self is Instruction.DELETE_KEY_AND_PROPAGATE


class Subscription(NamedTuple):
    """A left row tells the side of its foreign key that it refers to it, or no longer does.

    Keys are encoded. ``hash`` is the hash of the left value that asks (``None``: the left row is deleted).
    """

    foreign_key: bytes
    primary_key: bytes
    instruction: Instruction
    hash: bytes | None
    timestamp: int
    position: int


class Response(NamedTuple):
    """The side of the foreign key tells a left row what it refers to.

    ``value`` is the encoded right value (``None``: there is no right row), ``hash`` that of the subscription
    answered.
    """

    primary_key: bytes
    hash: bytes | None
    value: bytes | None
    timestamp: int
    position: int
