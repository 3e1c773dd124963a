"""Makes the graph of a bounded pipeline, which the local runner evaluates.

Relies on, in Beam 2.66 to 2.77: ``Pipeline.visit`` gives the nodes in an order in which they can be evaluated; a ``ParDo`` has its
function, ``fn``, with ``args`` and ``kwargs``, and its ``side_inputs``, each with a ``pvalue`` and ``_view_options``; the coder of
a collection is that of its ``element_type``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import apache_beam as beam
from apache_beam import coders
from apache_beam.pipeline import AppliedPTransform, Pipeline, PipelineVisitor
from apache_beam.pvalue import PCollection
from apache_beam.transforms.core import DoFn, Windowing, get_function_arguments
from apache_beam.transforms.trigger import Always, DefaultTrigger
from apache_beam.transforms.window import GlobalWindows

from beam_joins.pipelines.runners.local.combining import CombineBeforeGroups
from beam_joins.pipelines.runners.local.pipeline_graph import Begun, Call, Graph, Grouped, Kept, Node, Numbers, SideInput

_LEFT_TO_BEAM: Final = (DoFn.StateParam, DoFn.TimerParam)
"""The parameters of functions that have state or timers."""
_PARAMETER: Final = type(DoFn.TimestampParam)
_AROUND: Final = ("setup", "start_bundle", "finish_bundle", "teardown")


class NotEvaluated(Exception):
    """Raised for a pipeline that the local runner leaves to Beam's; its text says which transform is why."""


class SplitElements(DoFn):
    """Splits elements into the parts that a function takes side by side."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def process(self, element: Any) -> Iterator[Any]:
        """Give the parts of an element, each with its size."""
        provider = self._provider
        for part, size in provider.split_and_size(element, provider.initial_restriction(element)):
            yield (element, (part, None)), size


def graph_of(pipeline: Pipeline) -> Graph:
    """The graph of a bounded pipeline. Raises :class:`NotEvaluated`."""
    pipeline.replace_all([CombineBeforeGroups()])
    visited = _Visited()
    pipeline.visit(visited)
    cut = set[AppliedPTransform]()
    while True:
        made = _Building(visited.nodes, cut)
        waiting = [made.applied[number] for number in made.graph.waiting_for_themselves()]
        if not waiting:
            return made.graph
        # one after the other: what waits for itself through another may wait no more
        if (next_cut := next((each for each in waiting if each not in cut), None)) is None:
            raise NotEvaluated(f"{waiting[0].full_label} waits for its side input")
        cut.add(next_cut)


class _Visited(PipelineVisitor):
    """Lists the transforms that are evaluated. Raises :class:`NotEvaluated` for those that Beam evaluates better."""

    def __init__(self) -> None:
        self.nodes = list[AppliedPTransform]()

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        label, transform = transform_node.full_label, transform_node.transform
        if not all(each.is_bounded for each in (*transform_node.inputs, *transform_node.outputs.values())):
            raise NotEvaluated(f"{label} is unbounded")
        if isinstance(transform, beam.GroupByKey):
            windowing = transform_node.inputs[0].windowing
            if type(windowing.windowfn) is not GlobalWindows or type(windowing.triggerfn) not in (DefaultTrigger, Always):
                raise NotEvaluated(f"{label} groups by windows")
        elif isinstance(transform, beam.ParDo):
            if any(isinstance(each, _LEFT_TO_BEAM) for each in _parameters(transform.fn, "process").values()):
                raise NotEvaluated(f"{label} has state")
            if getattr(transform.fn.process, "__func__", None) is DoFn.process:
                raise NotEvaluated(f"{label} takes batches")
            if not all(type(side.pvalue.windowing.windowfn) is GlobalWindows for side in transform_node.side_inputs):
                raise NotEvaluated(f"{label} has side inputs in windows")
        elif not isinstance(transform, beam.Flatten | beam.Impulse):
            raise NotEvaluated(f"{label} is a {type(transform).__name__}")
        self.nodes.append(transform_node)


def _parameters(fn: DoFn, method: str) -> dict[str, Any]:
    """The parameters of a function's method that Beam gives it, by name."""
    names, defaults = get_function_arguments(fn, method)
    return {
        name: default
        for name, default in zip(reversed(names), reversed(defaults), strict=False)
        if isinstance(default, _PARAMETER) or any(default is parameter for parameter in DoFn.DoFnProcessParams)
    }


def _is_plain(transform: beam.ParDo, parameters: Mapping[str, Any], windowing: Windowing) -> bool:
    """Whether a function takes elements, maybe with their event times, and gives elements in the global window."""
    fn = transform.fn
    if type(windowing.windowfn) is not GlobalWindows or transform.side_inputs:
        return False
    if any(each is not DoFn.TimestampParam for each in parameters.values()) or (parameters and (transform.args or transform.kwargs)):
        return False
    return not any(_parameters(fn, name) for name in _AROUND if getattr(type(fn), name) is not getattr(DoFn, name))


class _Building:
    """Builds a graph of transforms; elements for those to ``cut`` are kept before them."""

    def __init__(self, nodes: Sequence[AppliedPTransform], cut: set[AppliedPTransform]) -> None:
        self._cut = cut
        self.applied = dict[int, AppliedPTransform]()
        self._takers = dict[PCollection[Any], list[AppliedPTransform]]()
        self._sides = dict[PCollection[Any], int]()
        for node in nodes:
            for collection in node.inputs:
                self._takers.setdefault(collection, []).append(node)
        # numbers count from the end, as a node names those behind it
        self._nodes = list[Node]()
        self._numbers = dict[AppliedPTransform, Numbers]()
        for node in reversed(nodes):
            self._numbers[node] = self._added(node)
        last = len(self._nodes) - 1
        self.applied = {last - n: node for n, node in self.applied.items()}
        self.graph = Graph(tuple(_renumbered(node, last) for node in reversed(self._nodes)))

    def _added(self, node: AppliedPTransform) -> Numbers:
        """The numbers of the nodes that get what a transform gets."""
        label, transform = node.full_label, node.transform
        outputs: Mapping[Any, Any] = node.outputs
        if isinstance(transform, beam.ParDo):
            return self._added_call(node, transform)
        to = self._to(outputs[None])
        if isinstance(transform, beam.Flatten):
            return to
        if isinstance(transform, beam.Impulse):
            return (self._add(Begun(label, to)),)
        coder = _coder(node.inputs[0])
        key = coder.key_coder()
        if node.inputs[0].requires_deterministic_key_coder:
            key = key.as_deterministic_coder(label)
        return (self._add(Grouped(label, key, coder.value_coder(), to)),)

    def _added_call(self, node: AppliedPTransform, transform: Any) -> Numbers:
        outputs: Mapping[Any, Any] = node.outputs
        parameters = _parameters(transform.fn, "process")
        splitting = next((each for each in parameters.values() if isinstance(each, DoFn.RestrictionParam)), None)
        windowing = next(iter(outputs.values())).windowing
        sides = tuple(SideInput(self._kept(side.pvalue), type(side), side._view_options()) for side in node.side_inputs)
        to = {tag: self._to(output) for tag, output in outputs.items()}
        made = Call(
            node.full_label,
            transform.fn,
            transform.args,
            transform.kwargs,
            windowing,
            to,
            sides,
            is_plain=_is_plain(transform, parameters, windowing),
            timed=next(iter(parameters), None),
            takes_parts=splitting is not None,
        )
        number = self._add(made)
        self.applied[number] = node
        if splitting is not None:
            number = self._added_split(node, splitting.restriction_provider or transform.fn, number)
        if node not in self._cut:
            return (number,)
        return (self._add(Kept(f"elements of {node.full_label}", _windowed_coder(node.inputs[0]), (number,))),)

    def _added_split(self, node: AppliedPTransform, provider: Any, to: int) -> int:
        collection, label = node.inputs[0], f"{node.full_label}/Split"
        part = coders.TupleCoder((provider.restriction_coder(), coders.SingletonCoder(None)))
        sized = coders.TupleCoder((coders.TupleCoder((_coder(collection), part)), coders.FloatCoder()))
        window_coder = collection.windowing.windowfn.get_window_coder()
        kept = self._add(Kept(label, coders.WindowedValueCoder(sized, window_coder), (to,)))
        return self._add(Call(label, SplitElements(provider), (), {}, collection.windowing, {None: (kept,)}))

    def _to(self, collection: PCollection[Any]) -> Numbers:
        takers = tuple(number for taker in self._takers.get(collection, ()) for number in self._numbers[taker])
        return (*takers, self._sides[collection]) if collection in self._sides else takers

    def _kept(self, collection: PCollection[Any]) -> int:
        if collection not in self._sides:
            self._sides[collection] = self._add(Kept("a side input", _windowed_coder(collection)))
        return self._sides[collection]

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1


def _renumbered(node: Node, last: int) -> Node:
    def numbers(of: Numbers) -> Numbers:
        return tuple(last - each for each in of)

    if isinstance(node, Call):
        sides = tuple(replace(side, kept=last - side.kept) for side in node.sides)
        return replace(node, to={tag: numbers(of) for tag, of in node.to.items()}, sides=sides)
    return replace(node, to=numbers(node.to))


def _coder(collection: PCollection[Any]) -> Any:
    return coders.registry.get_coder(collection.element_type)


def _windowed_coder(collection: PCollection[Any]) -> coders.Coder:
    return coders.WindowedValueCoder(_coder(collection), collection.windowing.windowfn.get_window_coder())
