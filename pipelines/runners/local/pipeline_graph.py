"""The graph of a bounded pipeline, as the local runner evaluates it: functions, between places where elements are kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from apache_beam import coders
from apache_beam.internal import pickler
from apache_beam.transforms.core import Windowing

Numbers: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class SideInput:
    """A side input: the number of the node that keeps it, and how Beam shows it to a function."""

    kept: int
    view: Any
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A function that is called for elements; ``to`` are the nodes that get each of its outputs, by tag."""

    label: str
    fn: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    windowing: Windowing
    to: Mapping[str | None, Numbers]
    sides: tuple[SideInput, ...] = ()
    is_plain: bool = True
    """Whether it takes elements, maybe with their event times, and nothing else that Beam knows."""
    timed: str | None = None
    """The parameter of the function that gets event times, if it is plain."""
    takes_parts: bool = False
    """Whether it is called for the parts into which elements are split, as :class:`SplitElements` gives them."""

    @property
    def takers(self) -> Iterator[int]:
        """The nodes that get its outputs."""
        return (each for numbers in self.to.values() for each in numbers)


@dataclass(frozen=True)
class Begun:
    """The beginning of a pipeline: one element."""

    label: str
    to: Numbers


@dataclass(frozen=True)
class Grouped:
    """Elements that are kept by their keys, and go on when all are there."""

    label: str
    key: coders.Coder
    value: coders.Coder
    to: Numbers


@dataclass(frozen=True)
class Kept:
    """Elements that are kept as a side input, or until one is there, or for whichever process is free."""

    label: str
    coder: coders.Coder
    to: Numbers = ()


Node: TypeAlias = Call | Begun | Grouped | Kept


@dataclass(frozen=True)
class Graph:
    """The nodes of a pipeline, each before those that get its elements."""

    nodes: tuple[Node, ...]
    _of_root: dict[int, Numbers] = field(default_factory=dict, repr=False)

    @cached_property
    def roots(self) -> Numbers:
        """The nodes at which elements begin or go on."""
        return tuple(n for n, node in enumerate(self.nodes) if not isinstance(node, Call) and node.to)

    def reached(self, root: int) -> Numbers:
        """The nodes that elements of a root come to before they are kept again."""
        if root not in self._of_root:
            seen, waiting = set[int](), [*self._takers(root)]
            while waiting:
                if (each := waiting.pop()) not in seen:
                    seen.add(each)
                    waiting += self._takers(each) if isinstance(self.nodes[each], Call) else ()
            self._of_root[root] = tuple(sorted(seen))
        return self._of_root[root]

    def calls(self, root: int) -> Iterator[int]:
        """The functions among these."""
        return (each for each in self.reached(root) if isinstance(self.nodes[each], Call))

    def filled_by(self, kept: int) -> Iterator[int]:
        """The roots whose elements come to a node."""
        return (root for root in self.roots if kept in self.reached(root))

    def before(self, root: int) -> set[int]:
        """The roots that have to end before one begins: those that fill it, and its side inputs."""
        return {each for kept in (root, *self.sides(root)) for each in self.filled_by(kept)}

    def sides(self, root: int) -> set[int]:
        """The nodes that keep the side inputs of these functions."""
        return {side.kept for call in self.calls(root) for side in self._sides(call)}

    def waiting_for_themselves(self) -> list[int]:
        """The functions whose side inputs come from what their own elements come from, so that the one waits for the other."""
        return [number for number in range(len(self.nodes)) if self._awaited(number).intersection(self.filled_by(number))]

    def _awaited(self, call: int) -> set[int]:
        """The roots that have to end before the side inputs of a function are there."""
        awaited, waiting = set[int](), [root for side in self._sides(call) for root in self.filled_by(side.kept)]
        while waiting:
            if (each := waiting.pop()) not in awaited:
                awaited.add(each)
                waiting += self.before(each)
        return awaited

    def _sides(self, number: int) -> tuple[SideInput, ...]:
        node = self.nodes[number]
        return node.sides if isinstance(node, Call) else ()

    def _takers(self, number: int) -> Iterable[int]:
        node = self.nodes[number]
        return node.takers if isinstance(node, Call) else node.to


def pickled(graph: Graph) -> bytes:
    """A graph for another process, or for this one: functions get copies of what the program has."""
    made: bytes = pickler.dumps(graph, use_zlib=True)
    return made


def unpickled(graph: bytes) -> Graph:
    """The graph that the job's process has pickled."""
    made: Graph = pickler.loads(graph, use_zlib=True)
    return made
