"""What the DoFns of the engine give: blocks of rows for replays, and elements of their outputs."""

from collections.abc import Iterable
from typing import Any

from apache_beam.pvalue import TaggedOutput

from beam_joins.coders.own_types import OwnTypes
from beam_joins.transforms.engine.block_writer import DROPPED, BlockWriter, Output


class Emitter:
    """What the DoFns of the engine share: a writer, and outputs of which the first needs no tag."""

    def __init__(self, outputs: tuple[str, ...], partitions: int) -> None:
        self._main = outputs[0]
        self._keep_dropped = DROPPED in outputs
        self._partitions = partitions
        self._own_types = OwnTypes()

    def writer(self, turn: int | None = None) -> BlockWriter:
        """An empty writer, of rows that have had their turn in a tick if there are ticks."""
        return BlockWriter(self._partitions, keep_dropped=self._keep_dropped, turn=turn)

    def emit(self, outputs: Iterable[Output]) -> list[Any]:
        """The elements as a DoFn gives them."""
        return [element if to == self._main else TaggedOutput(to, element) for to, element in outputs]
