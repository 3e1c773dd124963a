"""The elements of a graph that are kept between its roots, and the order in which roots have their turn."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from beam_joins.pipelines.runners.local.bundles import Encoded, Made
from beam_joins.pipelines.runners.local.pipeline_graph import Begun, Graph, Grouped

_LISTS: Final = 32
"""The number of lists into which the elements of a root are split for each process: a free one takes the next."""


class RootTurns:
    """Gives the elements of roots to processes; a root ends when all that began with it have left it. Threads may share it."""

    def __init__(self, graph: Graph, processes: int) -> None:
        self._shuffle, self._lists = Shuffle(graph), _LISTS * processes if processes > 1 else 1
        self._elements = dict[int, deque[list[Encoded]]]()
        self._within = dict[int, int]()
        self._lock = threading.Lock()

    def next_task(self, within: int | None) -> tuple[int, list[Encoded] | None] | None:
        """The root and the next elements for a process that is free; without elements it leaves its root. ``None``: it waits."""
        with self._lock:
            return self._next_task(within)

    def sides(self, root: int) -> Mapping[int, Sequence[bytes]]:
        """The elements of the side inputs that the functions of a root have."""
        return self._shuffle.sides(root)

    def keep(self, made: Made) -> None:
        """Keep elements that functions have made."""
        with self._lock:
            self._shuffle.keep(made)

    def left(self, root: int) -> None:
        """A process has left a root."""
        with self._lock:
            self._within[root] -= 1
            if not self._within[root] and not self._elements[root]:
                self._end(root)

    def _next_task(self, within: int | None) -> tuple[int, list[Encoded] | None] | None:
        if within is not None:
            elements = self._elements[within]
            return within, elements.popleft() if elements else None
        while (root := next((root for root, elements in self._elements.items() if elements), None)) is None:
            if (root := self._shuffle.next_root()) is None:
                return None
            self._elements[root] = deque(self._shuffle.elements(root, self._lists))
            if not self._elements[root]:
                self._end(root)
        self._within[root] = self._within.get(root, 0) + 1
        return root, self._elements[root].popleft()

    def _end(self, root: int) -> None:
        del self._elements[root]
        self._shuffle.ended(root)


class Shuffle:
    """Keeps elements until their root can begin, and gives them to it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._groups: dict[int, dict[bytes, list[bytes]]] = {n: {} for n, node in enumerate(graph.nodes) if isinstance(node, Grouped)}
        self._kept = dict[int, list[bytes]]()
        self._waiting = {root: graph.before(root) for root in graph.roots}

    def keep(self, made: Made) -> None:
        """Keep elements that functions have made."""
        for number, elements in made.items():
            if (groups := self._groups.get(number)) is None:
                self._kept.setdefault(number, []).extend(elements)
                continue
            for key, value in elements:
                groups.setdefault(key, []).append(value)

    def next_root(self) -> int | None:
        """The next root that can begin, which does so; ``None`` where others have to end before, or none is left."""
        root = next((root for root, before in self._waiting.items() if not before), None)
        if root is not None:
            del self._waiting[root]
        return root

    def ended(self, root: int) -> None:
        """A root has ended."""
        for before in self._waiting.values():
            before.discard(root)

    def elements(self, root: int, at_a_time: int) -> Iterator[list[Encoded]]:
        """The elements of a root, so many lists of them at most, which are forgotten."""
        if isinstance(self._graph.nodes[root], Begun):
            yield [None]
            return
        every = [*self._groups.pop(root).items()] if root in self._groups else self._kept.pop(root, [])
        every.reverse()
        size = max(1, -(-len(every) // at_a_time))
        while every:
            yield [every.pop() for _ in range(min(size, len(every)))]

    def sides(self, root: int) -> Mapping[int, Sequence[bytes]]:
        """The elements of the side inputs that the functions of a root have."""
        return {number: self._kept.get(number, []) for number in self._graph.sides(root)}
