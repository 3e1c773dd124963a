"""The functions of users in the stages of the engine: records for which one raises go to the output ``bad``.

An element of ``bad`` is ``(record, (class name, message, traceback lines))``.
"""

from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_joins.coders.own_types import OwnTypes
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions.user_functions import ExceptionClass, Functions
from beam_joins.transforms.engine.blocks.block_writer import BAD, BlockWriter, timestamped
from beam_joins.transforms.engine.stages.replay import RowRouter
from beam_joins.transforms.engine.turns.operator import Operator, Turn


class StageFunctions(Functions):
    """The functions of one applied transform, in its stages; the types with coders of users' own go with
    them.
    """

    def __init__(self, label: str, exc_class: ExceptionClass | None = None) -> None:
        super().__init__(label, exc_class)
        self._own_types = OwnTypes()

    def take(self) -> Iterator[Any]:
        """The elements that have gone to ``bad`` since the last time, for a DoFn to give."""
        return (TaggedOutput(BAD, element) for element in self._take_elements())

    def _take_elements(self) -> list[Any]:
        return [element if time is None else timestamped(element, time) for element, time in self.take_bad()]

    def route(self, rows: RowRouter) -> RowRouter:
        """``rows`` for records: one whose function raises is left out."""
        if not self.handles_any:
            return rows

        def handling(element: Any, timestamp: int, writer: BlockWriter) -> None:
            try:
                rows(element, timestamp, writer)
            except FunctionFailed as failed:
                self.caught(element, failed, timestamp)
            self.give(writer)

        return handling

    def replay(self, operator: Operator) -> Operator:
        """The operator, giving also the elements that have gone to ``bad``."""
        if not self.handles_any:
            return operator

        def handling(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, Any]:
            state = yield from operator(inputs, writer, turn)
            self.give(writer)
            return state

        return handling

    def give(self, writer: BlockWriter) -> None:
        """Put the elements that have gone to ``bad`` since the last time into the writer."""
        writer.bad(self._take_elements())
