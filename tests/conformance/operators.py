"""What the tool must know of an op to run it through the project's operators."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from apache_beam.pvalue import PCollection

from tests.conformance.answer import Answer, Out, Run
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values

Topology = Mapping[str, Any]


class Streams(NamedTuple):
    """What an operator's pipeline gives for many scenarios, by the names of :class:`tests.conformance.answer.Run`.

    ``outs`` and ``raw`` are of ((key, position), value), ``changes`` of changes and ``rows`` of (key, value); all have timestamps.
    """

    outs: PCollection[Any] | None = None
    changes: PCollection[Any] | None = None
    rows: PCollection[Any] | None = None
    raw: PCollection[Any] | None = None


class Operator(NamedTuple):
    """One op of the recorded format.

    * ``topics``: the names of its inputs.
    * ``kind``: what is printed after the op, such as the type of join.
    * ``kernels``: a scenario through the kernels of :mod:`beam_joins`, without Beam.
    * ``reference``: the same through the cores of :mod:`tests.reference`.
    * ``pipeline``: a topology built of the project's transforms. Its inputs are collections of dicts with ``key`` (of the form
      ``number/key``), ``value``, ``ts`` (milliseconds) and ``position``.
    * ``columns``: the same of transforms on columns; its inputs are batches of Arrow rows (:data:`tests.conformance.columns.ROWS`).
    * ``branch``: topologies that it builds alike, which share a branch of the pipeline.
    * ``rule``: what should come out at each input by a naive computation, for the results that Kafka Streams cannot be asked about.
    * ``judge``: how our answer is held against the recorded one, where not by the rules of :mod:`tests.conformance.judge`: a ``Verdict``,
      or ``None`` where they hold after all.
    * ``raw_rule``: the same on a raw changelog, for ops that Kafka Streams runs on one: it forwards late records.
    * ``loses_lateness``: true if the topology keeps a versioned table's late records in a plain store, where they overwrite newer ones.
    """

    topics: tuple[str, ...]
    kind: Callable[[Topology], str]
    kernels: Callable[[Scenario, Values], Run]
    reference: Callable[[Scenario], Run]
    pipeline: Callable[[dict[str, PCollection[Any]], Topology], Streams]
    branch: Callable[[Topology], Hashable]
    rule: Callable[[Scenario], list[list[Out]]]
    columns: Callable[[dict[str, PCollection[Any]], Topology], Streams] | None = None
    raw_rule: Callable[[Scenario], list[list[Out]]] | None = None
    loses_lateness: Callable[[Topology], bool] = lambda topology: False
    judge: Callable[[Scenario, Answer, Answer], Any] | None = None


def label(operator: Operator, topology: Topology) -> str:
    """The op and its kind, as the tool prints them."""
    kind = operator.kind(topology)
    return f"{topology['op']}/{kind}" if kind else str(topology["op"])
