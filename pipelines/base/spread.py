"""Spread: the elements of a list, each for whichever worker is free."""

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any, Generic, TypeVar

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_joins.transforms.connect.runs import ForEach

T = TypeVar("T")


class Spread(beam.PTransform[PBegin, PCollection[T]], Generic[T]):
    """Lists elements in a worker, and gives them to all workers.

    ``Create`` and ``Reshuffle`` do it in nine steps instead of four, and Beam takes milliseconds to build each.

    >>> with beam.Pipeline() as pipeline:
    ...     _ = pipeline | Spread(lambda: ["a"], str) | beam.Map(print)
    a
    """

    def __init__(self, elements: Callable[[], Iterable[T]], kind: Any) -> None:
        super().__init__()
        self._elements, self._kind = elements, kind

    def expand(self, begin: PBegin) -> PCollection[T]:
        """Apply the transform."""
        listed = beam.ParDo(ForEach(partial(_listed, self._elements))).with_output_types(beam.typehints.KV[int, self._kind])
        each = beam.ParDo(ForEach(itemgetter(1))).with_output_types(self._kind)
        spread: PCollection[T] = begin | "Begin" >> beam.Impulse() | "List" >> listed | "Spread" >> beam.GroupByKey() | "Each" >> each
        return spread


def _listed(elements: Callable[[], Iterable[Any]], _: bytes) -> Iterable[tuple[int, Any]]:
    return enumerate(elements())
