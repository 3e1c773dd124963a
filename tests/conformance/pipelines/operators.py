"""What the tool must know of an op to build pipelines of it."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from apache_beam.pvalue import PCollection

from tests.conformance.operators import Topology
from tests.conformance.values import Values


class Streams(NamedTuple):
    """What an operator's pipeline gives for many scenarios, by the names of
    :class:`tests.conformance.answer.Run`.

    ``outs`` and ``raw`` are of ((key, position), value), ``changes`` of changes and ``rows`` of (key, value);
    all have timestamps.
    """

    outs: PCollection[Any] | None = None
    changes: PCollection[Any] | None = None
    rows: PCollection[Any] | None = None
    raw: PCollection[Any] | None = None


Inputs = dict[str, PCollection[Any]]
"""The topics: dicts with the fields of :data:`tests.conformance.pipelines.rows.ROWS`, or Arrow tables of
these where values are typed.
"""


class Pipeline(NamedTuple):
    """An op as a pipeline: ``build`` makes a topology of the public transforms; ``branch`` tells which
    topologies it builds alike: they share a branch.
    """

    build: Callable[[Inputs, Topology, Values], Streams]
    branch: Callable[[Topology], Hashable]
