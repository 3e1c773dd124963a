"""The foreign-key join's protocol (KIP-213, as Kafka Streams 4.3.1 has it), one step per file.

A left change becomes :mod:`subscriptions <tests.reference.foreign_key.sender>` that go to the partition of
the foreign key; there a :mod:`store <tests.reference.foreign_key.store>` keeps them beside the right row and
answers; the answers return to the left key's partition, where they are :mod:`joined
<tests.reference.foreign_key.joiner>`.

It is the model that the tests compare :class:`beam_joins.ForeignKeyJoin` with; pipelines run
:mod:`beam_joins.kernels.overlap`.

Law: for every position p the content of the result is the join of the contents of both tables at p.
"""

from tests.reference.foreign_key.joiner import ResponseJoiner
from tests.reference.foreign_key.messages import How, Instruction, Response, Subscription
from tests.reference.foreign_key.sender import Reference, send
from tests.reference.foreign_key.store import SubscriptionStore
from tests.reference.foreign_key.value_hash import value_hash

__all__ = [
    "How",
    "Instruction",
    "Reference",
    "Response",
    "ResponseJoiner",
    "Subscription",
    "SubscriptionStore",
    "send",
    "value_hash",
]
