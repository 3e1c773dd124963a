"""Step one: a left change becomes subscriptions.

Kafka does this in SubscriptionSendProcessorSupplier; the rules are those after KAFKA-16394, 16407, 16434 and
18713.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.reference.foreign_key.messages import How, Instruction, Response, Subscription


class Reference(NamedTuple):
    """What a left row refers to: an encoded foreign key, or nothing (``None``)."""

    foreign_key: bytes | None


def send(
    how: How,
    primary_key: bytes,
    old: Reference | None,
    new: Reference | None,
    *,
    new_hash: bytes | None,
    timestamp: int,
    position: int,
) -> Iterator[Subscription | Response]:
    """The messages that a change of a left row causes, which referred to ``old`` and now refers to ``new``
    (``None``: no row).

    ``new_hash`` is the :func:`hash <tests.reference.foreign_key.value_hash.value_hash>` of the row's new
    value. In a left join a row that refers to nothing needs no other side: it is answered here, by a null
    response.

    >>> [m.instruction.name for m in send("inner", b"k", None, Reference(b"A"), new_hash=b"#", timestamp=0, position=0)]
    ['PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE']
    """
    old_fk = old.foreign_key if old else None
    new_fk = new.foreign_key if new else None
    moved = old_fk is not None and old_fk != new_fk
    if moved and old_fk is not None:
        ends_result = how == "inner" and new_fk is None
        instruction = Instruction.DELETE_KEY_AND_PROPAGATE if ends_result else Instruction.DELETE_KEY_NO_PROPAGATE
        yield Subscription(old_fk, primary_key, instruction, new_hash, timestamp, position)
    if new_fk is not None:
        # A row that moved away from a reference may leave a result behind, so the new side must answer in any
        # case.
        always = how == "left" or moved
        instruction = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE if always else Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
        yield Subscription(new_fk, primary_key, instruction, new_hash, timestamp, position)
    elif how == "left" and (old or new):
        yield Response(primary_key, new_hash, None, timestamp, position)
