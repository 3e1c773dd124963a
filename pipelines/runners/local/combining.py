"""Combines values in each process before they are grouped, as Beam's runners do."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PTransformOverride
from apache_beam.pvalue import AsSideInput, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue


class CombineBeforeGroups(PTransformOverride):
    """Replaces a ``CombinePerKey`` in the global window, without side inputs, by one that combines before it groups."""

    def matches(self, applied_ptransform: AppliedPTransform) -> bool:
        """Whether a transform is replaced."""
        transform: Any = applied_ptransform.transform
        if not isinstance(transform, beam.CombinePerKey) or not applied_ptransform.inputs[0].windowing.is_default():
            return False
        return not any(isinstance(each, AsSideInput) for each in (*transform.args, *transform.kwargs.values(), *transform.side_inputs))

    def get_replacement_transform_for_applied_ptransform(self, applied_ptransform: AppliedPTransform) -> Any:
        """The transform in its place."""
        transform: Any = applied_ptransform.transform
        return _Combine(transform.fn, transform.args, transform.kwargs)


class _Combine(beam.PTransform[Any, Any]):
    def __init__(self, fn: beam.CombineFn, args: Any, kwargs: Any) -> None:
        super().__init__()
        self._given = fn, args, kwargs

    def expand(self, pcoll: PCollection[Any]) -> Any:
        accumulated = pcoll | "Accumulate" >> beam.ParDo(_Accumulate(*self._given))
        return accumulated | beam.GroupByKey() | "Extract" >> beam.ParDo(_Extract(*self._given))


class _Calling(beam.DoFn):
    """Calls a function that combines, with the arguments of its transform."""

    def __init__(self, fn: beam.CombineFn, args: Any, kwargs: Any) -> None:
        self._fn, self._args, self._kwargs = fn, args, kwargs

    def setup(self) -> None:
        self._fn.setup(*self._args, **self._kwargs)

    def teardown(self) -> None:
        self._fn.teardown(*self._args, **self._kwargs)

    def _call(self, method: str, *given: Any) -> Any:
        return getattr(self._fn, method)(*given, *self._args, **self._kwargs)


class _Accumulate(_Calling):
    """Keys and values to keys and accumulators, one for each key of a bundle."""

    def start_bundle(self) -> None:
        self._accumulators = dict[Any, Any]()

    def process(self, element: tuple[Any, Any]) -> Iterable[Any]:
        key, value = element
        accumulator = self._accumulators[key] if key in self._accumulators else self._call("create_accumulator")
        self._accumulators[key] = self._call("add_input", accumulator, value)
        return ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for key, accumulator in self._accumulators.items():
            yield GlobalWindows.windowed_value((key, self._call("compact", accumulator)))
        del self._accumulators


class _Extract(_Calling):
    """Keys and accumulators to keys and combined values."""

    def process(self, element: tuple[Any, Iterable[Any]]) -> Iterator[tuple[Any, Any]]:
        key, accumulators = element
        yield key, self._call("extract_output", self._call("merge_accumulators", accumulators))
