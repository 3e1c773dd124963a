"""What the tool must know of an op."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance.answer import Answer, Out, Run
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values

Topology = Mapping[str, Any]
Cuts = Sequence[int]
"""The positions behind which a history is cut into runs."""


class Operator(NamedTuple):
    """One op of the recorded format.

    * ``topics``: the names of its inputs.
    * ``kind``: what is printed after the op, such as the type of join.
    * ``kernels``: a scenario through the kernels of :mod:`beam_joins`, without Beam; in one run or several,
      each from the state that the one before left.
    * ``reference``: the same through the cores of :mod:`tests.reference`.
    * ``rule``: what should come out at each input by a naive computation, for the results that Kafka Streams
      cannot be asked about.
    * ``judge``: how our answer is held against the recorded one, where not by the rules of
      :mod:`tests.conformance.judge`: a ``Verdict``, or ``None`` where they hold after all.
    * ``raw_rule``: the same on a raw changelog, for ops that Kafka Streams runs on one: it forwards late
      records.
    * ``loses_lateness``: true if the topology keeps a versioned table's late records in a plain store, where
      they overwrite newer ones.

    How it is built as a pipeline stands in :mod:`tests.conformance.pipelines`.
    """

    topics: tuple[str, ...]
    kind: Callable[[Topology], str]
    kernels: Callable[[Scenario, Values, Cuts], Run]
    reference: Callable[[Scenario], Run]
    rule: Callable[[Scenario], list[list[Out]]]
    raw_rule: Callable[[Scenario], list[list[Out]]] | None = None
    loses_lateness: Callable[[Topology], bool] = lambda topology: False
    judge: Callable[[Scenario, Answer, Answer], Any] | None = None


def label(operator: Operator, topology: Topology) -> str:
    """The op and its kind, as the tool prints them."""
    kind = operator.kind(topology)
    return f"{topology['op']}/{kind}" if kind else str(topology["op"])
