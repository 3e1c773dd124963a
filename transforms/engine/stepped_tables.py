"""Evaluates the tables of a pipeline in this process, step by step, without running it.

Relies on, in Beam 2.66 to 2.77: ``Pipeline.visit`` gives the nodes in an order in which they can be evaluated; a ``ParDo`` has its
function, ``fn``, with ``args`` and ``kwargs``, a ``Create`` its ``values``, and a ``TaggedOutput`` the output that an element goes to.
"""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, Pipeline, PipelineVisitor
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.transforms.engine.stages.replay import BundleDoFn
from beam_joins.transforms.engine.turns.stepped_turn import Reached, StepEmitter, SteppedTurn

_Dropped = dict[str, Counter[str]]
_Elements = dict[Any, list[Any]]


class SteppedTables:
    """The tables of a pipeline in which :func:`~beam_joins.transforms.engine.turns.stepped_turn.evaluate_in_steps` is set.

    ``inputs`` are the collections that get elements in each step, and ``output`` is the one whose elements a step gives. Raises
    ``ValueError`` for a transform of the pipeline that is not evaluated so, such as one that groups elements.
    """

    def __init__(self, pipeline: Pipeline, inputs: Mapping[str, PCollection[Any]], output: PCollection[Any]) -> None:
        self._inputs, self._output = inputs, output
        nodes = _Nodes()
        pipeline.visit(nodes)
        self._nodes = [_Node(each) for each in nodes.present if {*inputs.values()}.isdisjoint(each.outputs.values())]
        self._reached = [Reached()] * len(self._nodes)

    def step(self, elements: Mapping[str, Iterable[Any]]) -> tuple[list[Any], _Dropped]:
        """The elements that follow from those of a step, and the numbers of records that were dropped, by the labels of transforms
        and the reasons. Where it raises, all is as it was.
        """
        made: _Elements = {self._inputs[name]: list(of_input) for name, of_input in elements.items()}
        reached, dropped = list[Reached](), _Dropped()
        for node, before in zip(self._nodes, self._reached, strict=True):
            emitter = StepEmitter(node.names)
            reached.append(node.evaluate(made, before, emitter))
            if emitter.dropped:
                dropped.setdefault(node.label, Counter()).update(emitter.dropped)
        # positions of all tables are in one order: a row may be late behind those of another table
        frontier = max((each.frontier for each in reached if each.frontier is not None), default=None)
        self._reached = [each._replace(frontier=frontier) for each in reached]
        return [_value(each) for each in made.get(self._output, [])], dropped


class _Node:
    """A transform that makes elements of elements."""

    def __init__(self, applied: AppliedPTransform) -> None:
        self._transform: Any = applied.transform
        transform = self._transform
        if applied.side_inputs or not isinstance(transform, beam.ParDo | beam.Flatten | beam.Create):
            raise ValueError(f"{applied.full_label} is not evaluated in steps: use transforms of tables, beam.Map and beam.FlatMap")
        self.label, self._inputs, self._outputs = applied.full_label.partition("/")[0], applied.inputs, applied.outputs
        self._fn = transform.fn if isinstance(transform, beam.ParDo) else None
        self.names: tuple[str, ...] = self._fn.outputs if isinstance(self._fn, BundleDoFn | SteppedTurn) else ("",)

    def evaluate(self, made: _Elements, before: Reached, emitter: StepEmitter) -> Reached:
        """Add the elements of a step to those that are ``made``; gives what the transform has after it."""
        after = Reached(has_begun=True)
        come = [each for collection in self._inputs for each in made.get(collection, ())]
        elements: Iterable[Any] = come
        if isinstance(self._fn, SteppedTurn):
            elements, after = self._fn.step(before, map(_value, come), emitter)
        elif self._fn is not None:
            elements = self._called(self._fn.with_emitter(emitter) if isinstance(self._fn, BundleDoFn) else self._fn, come)
        elif isinstance(self._transform, beam.Create):
            elements = () if before.has_begun else self._transform.values
        for each in elements:
            tag = each.tag if isinstance(each, TaggedOutput) else None
            if (output := self._outputs.get(tag)) is not None:
                made.setdefault(output, []).append(each if tag is None else each.value)
        return after

    def _called(self, fn: beam.DoFn, elements: Iterable[Any]) -> Iterator[Any]:
        """The elements that a function gives for elements, all of them in one bundle."""
        named = {**self._transform.kwargs}
        timed = [name for name, each in _parameters(fn.process) if each.default is beam.DoFn.TimestampParam]
        fn.start_bundle()
        for each in elements:
            time = each.timestamp if isinstance(each, WindowedValue) else MIN_TIMESTAMP
            yield from fn.process(_value(each), *self._transform.args, **named, **dict.fromkeys(timed, time)) or ()
        yield from fn.finish_bundle() or ()


class _Nodes(PipelineVisitor):
    """Finds the transforms to evaluate; a ``Create`` is one, without the transforms within it."""

    def __init__(self) -> None:
        self.present: list[AppliedPTransform] = []
        self._within: AppliedPTransform | None = None

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        if self._within is None and isinstance(transform_node.transform, beam.Create):
            self._within = transform_node
            self.present.append(transform_node)

    def leave_composite_transform(self, transform_node: AppliedPTransform) -> None:
        if self._within is transform_node:
            self._within = None

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if self._within is None:
            self.present.append(transform_node)


def _parameters(function: Any) -> Iterable[tuple[str, inspect.Parameter]]:
    try:
        return inspect.signature(function).parameters.items()
    except ValueError:  # of a built-in function
        return ()


def _value(element: Any) -> Any:
    return element.value if isinstance(element, WindowedValue) else element
