"""Evaluates the functions of a graph in this process: elements of a root go through them until they are kept again.

Relies on, in Beam 2.66 to 2.77: ``DoFnRunner`` calls a function with all that Beam gives it, and has ``process``, ``setup``,
``start``, ``finish`` and ``teardown``; a ``StateSampler`` has the states in which metrics are counted, each with its container; a
``SideInputMap`` shows a side input.
"""

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from apache_beam.metrics.execution import MetricsContainer
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.common import DoFnRunner, NameContext, Receiver
from apache_beam.runners.worker import statesampler
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.sideinputs import SideInputMap
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.pipelines.runners.local.pipeline_graph import Begun, Call, Graph, Grouped, Kept

_WINDOWS: Final = (GlobalWindow(),)
_END: Final = GlobalWindow().max_timestamp()

Encoded: TypeAlias = Any
"""An element that is kept: its bytes, or a key with its value, both as bytes; of a root that groups, a key with all of its values."""
Made: TypeAlias = dict[int, list[Encoded]]
"""The elements that are to be kept, by the number of the node that keeps them."""


class Bundles:
    """Evaluates the functions of a graph, the elements of one root after those of another."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._made = graph, Made()
        self._tracker = statesampler.StateSampler("local", CounterFactory())
        self._metrics = dict[str, MetricsContainer]()
        self._calls = dict[int, _Call]()
        self._within = list[_Call]()
        self._root = 0
        self._failed = list[str]()

    @property
    def failed(self) -> str | None:
        """The label of the transform whose function has raised."""
        return self._failed[0] if self._failed else None

    def begin(self, root: int, sides: Mapping[int, Sequence[bytes]]) -> None:
        """Begin with a root; ``sides`` are the elements of side inputs by the numbers of the nodes that keep them."""
        statesampler.set_current_tracker(self._tracker)
        self._root = root
        for number in reversed([*self._graph.calls(root)]):
            if number not in self._calls:
                self._calls[number] = self._made_call(number, sides)
        self._within = [self._calls[number] for number in self._graph.calls(root)]
        for call in self._within:
            call.around("start_bundle")

    def process(self, elements: Iterable[Encoded]) -> None:
        """Evaluate elements of the root."""
        node = self._graph.nodes[self._root]
        assert not isinstance(node, Call)
        receive = self._receiver(node.to).receive
        for each in _decoded(node, elements):
            receive(each)

    def end(self) -> None:
        """End with the root."""
        for call in self._within:
            call.around("finish_bundle")
        self._within = []
        statesampler.set_current_tracker(None)

    def taken(self) -> Made:
        """The elements that are to be kept, since the last time."""
        made = {number: [*elements] for number, elements in self._made.items() if elements}
        for elements in self._made.values():
            elements.clear()
        return made

    def close(self) -> None:
        """Have all functions end."""
        for call in self._calls.values():
            call.around("teardown")

    def metrics(self) -> Iterator[tuple[str, bytes]]:
        """The metrics by the labels of transforms, each as Beam's ``MonitoringInfo``."""
        for label, metrics in self._metrics.items():
            for info in metrics.to_runner_api_monitoring_infos(label).values():
                yield label, info.SerializeToString()

    def _made_call(self, number: int, sides: Mapping[int, Sequence[bytes]]) -> "_Call":
        node = self._graph.nodes[number]
        assert isinstance(node, Call)
        to = {tag: self._receiver(numbers) for tag, numbers in node.to.items()}
        metrics = self._metrics[node.label] = MetricsContainer(node.label)
        state = self._tracker.scoped_state(NameContext(node.label), "process", metrics_container=metrics)
        watched = _Watched(node.label, state, self._failed)
        call = _PlainlyCalled(node, to, watched) if node.is_plain else _Called(node, to, watched, self._shown(node, sides))
        call.around("setup")
        return call

    def _shown(self, node: Call, sides: Mapping[int, Sequence[bytes]]) -> list[SideInputMap]:
        shown = []
        for side in node.sides:
            kept = self._graph.nodes[side.kept]
            assert isinstance(kept, Kept)
            shown.append(SideInputMap(side.view, side.options, [*map(kept.coder.decode, sides[side.kept])]))
        return shown

    def _receiver(self, numbers: Sequence[int]) -> Receiver:
        receivers = [*map(self._receiver_of, numbers)]
        return receivers[0] if len(receivers) == 1 else _All(receivers)

    def _receiver_of(self, number: int) -> Receiver:
        node = self._graph.nodes[number]
        if isinstance(node, Call):
            return self._calls[number]
        keep = self._made.setdefault(number, []).append
        if isinstance(node, Grouped):
            return _Grouping(node, keep)
        assert isinstance(node, Kept)
        return _Keeping(node, keep)


def failure_text(error: Exception, bundles: Bundles | None) -> str:
    """An error as Beam's runners tell it: its traceback, with the label of the transform whose function has raised."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return text if bundles is None or bundles.failed is None else f"{text} [while running '{bundles.failed}']"


def _decoded(node: Any, elements: Iterable[Encoded]) -> Iterator[WindowedValue]:
    if isinstance(node, Begun):
        yield from (WindowedValue(b"", MIN_TIMESTAMP, _WINDOWS) for _ in elements)
    elif isinstance(node, Kept):
        yield from map(node.coder.decode, elements)
    else:
        key_of, value_of = node.key.decode, node.value.decode
        for key, values in elements:
            yield WindowedValue((key_of(key), [*map(value_of, values)]), _END, _WINDOWS)


class _All(Receiver):
    """Hands elements on to several, or to none."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self._receivers = receivers

    def receive(self, windowed_value: WindowedValue) -> None:
        for each in self._receivers:
            each.receive(windowed_value)


class _Keeping(Receiver):
    """Encodes elements that are kept."""

    def __init__(self, node: Kept, keep: Callable[[Encoded], None]) -> None:
        self._encode, self._keep = node.coder.encode, keep

    def receive(self, windowed_value: WindowedValue) -> None:
        self._keep(self._encode(windowed_value))


class _Grouping(Receiver):
    """Encodes keys and values that are kept."""

    def __init__(self, node: Grouped, keep: Callable[[Encoded], None]) -> None:
        self._key, self._value, self._keep = node.key.encode, node.value.encode, keep

    def receive(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        self._keep((self._key(key), self._value(value)))


class _Watched:
    """Counts the metrics of a transform while its function is called, and notes which function has raised."""

    def __init__(self, label: str, state: Any, failed: list[str]) -> None:
        self._label, self._state, self._failed = label, state, failed

    def __enter__(self) -> None:
        self._state.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._state.__exit__(kind, error, trace)
        if kind is not None and not self._failed:
            self._failed.append(self._label)


class _Called(Receiver):
    """A function that Beam calls for elements, with all that it may ask for."""

    def __init__(self, node: Call, to: Mapping[str | None, Receiver], watched: _Watched, sides: Sequence[SideInputMap]) -> None:
        self._watched = watched
        receivers = defaultdict(lambda: _All(()), to)  # elements for outputs that nobody has asked for are dropped
        self._takes_parts = node.takes_parts
        self._runner = DoFnRunner(node.fn, node.args, node.kwargs, sides, node.windowing, receivers)

    def receive(self, windowed_value: WindowedValue) -> None:
        with self._watched:
            if not self._takes_parts:
                self._runner.process(windowed_value)
                return
            parts = [windowed_value]
            while parts:  # a function may leave the rest of a part for later
                parts += [left.residual_value for left in self._runner.process_with_sized_restriction(parts.pop())]

    def around(self, method: str) -> None:
        """Call the function's method of a bundle or of its whole life."""
        with self._watched:
            getattr(self._runner, {"start_bundle": "start", "finish_bundle": "finish"}.get(method, method))()


class _PlainlyCalled(Receiver):
    """A function that takes elements and event times only, called without what Beam prepares for others."""

    def __init__(self, node: Call, to: Mapping[str | None, Receiver], watched: _Watched) -> None:
        self._watched, self._fn, self._process = watched, node.fn, node.fn.process
        self._args, self._kwargs = node.args, node.kwargs
        self._timed = node.timed
        self._nobody = _All(())
        self._main, self._to = to.get(None, self._nobody), to

    def receive(self, windowed_value: WindowedValue) -> None:
        with self._watched:
            if self._timed is not None:
                made = self._process(windowed_value.value, **{self._timed: windowed_value.timestamp})
            else:
                made = self._process(windowed_value.value, *self._args, **self._kwargs)
            if made is not None:
                self._give(made, windowed_value)

    def around(self, method: str) -> None:
        """Call the function's method of a bundle or of its whole life."""
        with self._watched:
            made = getattr(self._fn, method)()
            if method == "finish_bundle" and made is not None:
                self._give(made, None)

    def _give(self, made: Iterable[Any], of: WindowedValue | None) -> None:
        if isinstance(made, str | bytes | dict) and not isinstance(self._fn, CallableWrapperDoFn):
            raise TypeError(f"Returning a {type(made).__name__} from a ParDo is not allowed: give a list of elements")
        for each in made:
            receiver = self._main
            if isinstance(each, TaggedOutput):
                receiver, each = self._to.get(each.tag, self._nobody), each.value  # noqa: PLW2901
            if isinstance(each, WindowedValue):
                receiver.receive(each)
            elif isinstance(each, TimestampedValue):
                receiver.receive(WindowedValue(each.value, each.timestamp, _WINDOWS))
            elif of is None:
                raise TypeError(f"finish_bundle gave {each!r}: give a WindowedValue")
            else:
                receiver.receive(of.with_value(each))


_Call: TypeAlias = _Called | _PlainlyCalled
