"""The elements of a graph that are kept between its roots, and the order in which roots have their turn."""

from collections.abc import Iterator, Mapping, Sequence

from beam_joins.pipelines.runners.local.bundles import Encoded, Made
from beam_joins.pipelines.runners.local.pipeline_graph import Begun, Graph, Grouped


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
