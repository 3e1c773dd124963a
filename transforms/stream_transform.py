"""What the joins of streams have in common: their options, and the outputs beside the joined stream."""

from collections.abc import Callable
from typing import Any

from transforms.fields import of_row
from transforms.options import choice, function
from transforms.outputs import WithOutputs
from transforms.replay import partition_count
from transforms.stream_rows import OfRow


class StreamTransform(WithOutputs):
    """A join that gives a stream, or with :meth:`with_outputs` a named tuple of that stream and its other outputs."""

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        how: Any,
        choices: Any,
        *,
        sequence_by: str | OfRow | None,
        partitions: int | None,
    ) -> None:
        super().__init__()
        self._joiner = function("joiner", joiner, "of the left and the right value")
        self._how = choice("how", how, choices)
        self._sequence = None if sequence_by is None else of_row("sequence_by", sequence_by)
        self._partitions = partition_count(partitions)
