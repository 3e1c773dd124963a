"""CallOnce: calls a function once for all elements of collections."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.transforms.connect.runs import ForEach


class CallOnce(beam.PTransform[Any, PCollection[Any]]):
    """Calls a function with all elements of one collection or of several, also where they have none, in one worker.

    ``call`` gives the elements of the output, which are of the type ``gives``. ``each`` converts an element in the worker that has
    it, to anything but ``None``.

    >>> with beam.Pipeline() as pipeline:
    ...     numbers = pipeline | beam.Create([1, 2, 3])
    ...     _ = numbers | CallOnce(lambda all: [sum(all)], int) | beam.Map(print)
    6
    """

    def __init__(self, call: Callable[[Iterable[Any]], Iterable[Any]], gives: Any, each: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self._call, self._gives, self._each = call, gives, each

    def expand(self, inputs: Any) -> PCollection[Any]:
        """Apply the transform."""
        collections = inputs if isinstance(inputs, tuple) else (inputs,)
        keyed = beam.typehints.KV[int, Any]
        together = collections | "Together" >> beam.Flatten() if len(collections) > 1 else collections[0]
        elements = together | "Each" >> beam.ParDo(ForEach(partial(_keyed, self._each))).with_output_types(keyed)
        begin = elements.pipeline | "Begin" >> beam.Impulse() | "None" >> beam.ParDo(ForEach(_none)).with_output_types(keyed)
        called: PCollection[Any] = (
            (elements, begin)
            | "All" >> beam.Flatten()
            | "At once" >> beam.GroupByKey()
            | "Call" >> beam.ParDo(ForEach(partial(_called, self._call))).with_output_types(self._gives)
        )
        return called


def _keyed(each: Callable[[Any], Any] | None, element: Any) -> list[tuple[int, Any]]:
    return [(0, element if each is None else each(element))]


def _none(_: bytes) -> list[tuple[int, None]]:
    return [(0, None)]


def _called(call: Callable[[Iterable[Any]], Iterable[Any]], grouped: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return call(_Elements(grouped[1]))


class _Elements(Iterable[Any]):
    """The elements of a group, as often as they are asked for."""

    def __init__(self, group: Iterable[Any]) -> None:
        self._group = group

    def __iter__(self) -> Iterator[Any]:
        return (element for element in self._group if element is not None)
