"""DoFns that Beam inspects once for each class, and not once for each transform.

Relies on, in Beam 2.66 to 2.77: a ``ParDo`` asks for the parameters of a method ``m`` by ``_inspect_m`` where its DoFn has that, looks
for state and timers in the methods that ``dir`` lists, and takes types from ``default_type_hints``.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import apache_beam as beam
from apache_beam.transforms.core import get_function_args_defaults

_METHODS: Final = ("process", "process_batch", "setup", "start_bundle", "finish_bundle", "teardown")


class KeptSignatures(beam.DoFn):
    """A DoFn without state and timers, whose methods Beam inspects once for each class: to inspect them takes longer than to apply
    the transform.

    >>> class Doubled(KeptSignatures):
    ...     def process(self, element: int, time: Any = beam.DoFn.TimestampParam) -> list[int]:
    ...         return [2 * element]
    >>> beam.ParDo(Doubled()).fn.get_function_arguments("process")[0]
    ['element', 'time']
    """

    @property
    def _class(self) -> Any:
        return type(self)

    def __dir__(self) -> Iterable[str]:
        """The methods that may have parameters of Beam."""
        return _METHODS

    def default_type_hints(self) -> Any:
        """The types of its elements and of those that it gives."""
        return _type_hints(self._class)

    def infer_output_type(self, input_type: Any) -> Any:
        """The type of the elements that it gives where nobody declares one: Beam would interpret its code."""
        return beam.typehints.Any

    def _inspect_process(self) -> Any:
        return _arguments(self._class, "process")

    def _inspect_process_batch(self) -> Any:
        return _arguments(self._class, "process_batch")

    def _inspect_setup(self) -> Any:
        return _arguments(self._class, "setup")

    def _inspect_start_bundle(self) -> Any:
        return _arguments(self._class, "start_bundle")

    def _inspect_finish_bundle(self) -> Any:
        return _arguments(self._class, "finish_bundle")

    def _inspect_teardown(self) -> Any:
        return _arguments(self._class, "teardown")


class ForEach(KeptSignatures):
    """Gives the elements that a function gives for each element, without a look at the types in its signature.

    >>> with beam.Pipeline() as pipeline:
    ...     _ = pipeline | beam.Create([2]) | beam.ParDo(ForEach(range)) | beam.Map(print)
    0
    1
    """

    def __init__(self, elements: Callable[[Any], Iterable[Any]]) -> None:
        self._elements = elements

    def process(self, element: Any) -> Any:
        """Give the elements that follow from one."""
        return self._elements(element)


@cache
def _arguments(of: Any, method: str) -> Any:
    """The parameters of a method behind ``self``, and the defaults of the last ones."""
    names, defaults = get_function_args_defaults(getattr(of, method))
    return names[1:], defaults


@cache
def _type_hints(of: Any) -> Any:
    return beam.DoFn.default_type_hints(of.__new__(of))
