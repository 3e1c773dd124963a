"""Which replays of a pipeline are connected: one lies upstream of another. They have one frontier."""

from collections.abc import Iterable
from typing import Any

from apache_beam.pipeline import AppliedPTransform, Pipeline, PipelineVisitor


def connected(pipeline: Pipeline, labels: Iterable[str]) -> list[set[str]]:
    """The full labels of replays in groups: two replays are in one group if a path connects them, in
    whichever direction at each step.
    """
    visitor = _Upstream(labels)
    pipeline.visit(visitor)
    return visitor.groups()


class _Upstream(PipelineVisitor):
    def __init__(self, labels: Iterable[str]) -> None:
        self._group = {label: {label} for label in labels}
        self._nearest: dict[Any, frozenset[str]] = {}

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        sources = [*transform_node.inputs, *(side.pvalue for side in transform_node.side_inputs)]
        above = frozenset[str]().union(*(self._nearest.get(source.producer, frozenset()) for source in sources))
        inside = next((label for label in self._group if transform_node.full_label.startswith(f"{label}/")), None)
        if inside is not None:
            together = set.union(self._group[inside], *(self._group[label] for label in above))
            self._group.update(dict.fromkeys(together, together))
            above = frozenset({inside})
        self._nearest[transform_node] = above

    def groups(self) -> list[set[str]]:
        """The groups, each once."""
        return list({id(group): group for group in self._group.values()}.values())
