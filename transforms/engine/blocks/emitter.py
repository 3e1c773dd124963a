"""The output of the engine's DoFns: blocks of rows for replays, and elements of their outputs."""

from collections.abc import Iterable
from typing import Any

from apache_beam.pvalue import TaggedOutput

from beam_joins.coders.own_types import OwnTypes
from beam_joins.transforms.engine.blocks.block_files import BlockFolder
from beam_joins.transforms.engine.blocks.block_writer import DROPPED, BlockWriter, Output


class Emitter:
    """The writers and the tagged outputs of the engine's DoFns; the first output needs no tag.

    With a ``folder`` blocks are written there, each for one of ``ranges`` of a partition, and references to them travel.
    """

    def __init__(self, outputs: tuple[str, ...], partitions: int, folder: BlockFolder | None = None, ranges: int = 1) -> None:
        self.outputs = outputs
        self.keeps_dropped = DROPPED in outputs
        self._partitions, self._ranges = partitions, ranges if folder is not None else 1
        self._folder = folder
        self._own_types = OwnTypes()

    def writer(self, turn: int | None = None) -> BlockWriter:
        """An empty writer; ``turn`` is the end of the tick in which its rows have had their turn, if there
        are ticks.
        """
        file = None if self._folder is None else self._folder.file()
        return BlockWriter(self._partitions, ranges=self._ranges, keep_dropped=self.keeps_dropped, turn=turn, file=file)

    def emit(self, outputs: Iterable[Output]) -> list[Any]:
        """The elements as a DoFn gives them."""
        return [element if to == self.outputs[0] else TaggedOutput(to, element) for to, element in outputs]
