"""What the tool must know of an op to build pipelines of it."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from apache_beam.pvalue import PCollection

from tests.conformance.operators import Topology


class Streams(NamedTuple):
    """What an operator's pipeline gives for many scenarios, by the names of :class:`tests.conformance.answer.Run`.

    ``outs`` and ``raw`` are of ((key, position), value), ``changes`` of changes and ``rows`` of (key, value); all have timestamps.
    """

    outs: PCollection[Any] | None = None
    changes: PCollection[Any] | None = None
    rows: PCollection[Any] | None = None
    raw: PCollection[Any] | None = None


class Pipeline(NamedTuple):
    """An op as a pipeline.

    * ``build``: a topology built of the project's transforms. Its inputs are collections of dicts with ``key`` (of the form
      ``number/key``), ``value``, ``ts`` (milliseconds) and ``position``.
    * ``branch``: topologies that it builds alike, which share a branch of the pipeline.
    * ``columns``: the same of transforms on columns; its inputs are batches of Arrow rows (:data:`tests.conformance.pipelines.columns.ROWS`).
    """

    build: Callable[[dict[str, PCollection[Any]], Topology], Streams]
    branch: Callable[[Topology], Hashable]
    columns: Callable[[dict[str, PCollection[Any]], Topology], Streams] | None = None
