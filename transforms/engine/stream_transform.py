"""What the joins of streams have in common: their options, and the outputs beside the joined stream."""

from typing import Any

from beam_joins.fields import Fields, place_of_row
from beam_joins.joiner import joiner_in_columns
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.stream_rows import OfRow
from beam_joins.typed_rows import Schema


class StreamTransform(WithOutputs):
    """A join that gives a stream, or with :meth:`with_outputs` a named tuple of that stream and its other outputs."""

    def __init__(
        self,
        joiner: Any,
        how: Any,
        choices: Any,
        *,
        sequence_by: Fields | OfRow | None,
        schema: Schema | None = None,
        partitions: int | None,
    ) -> None:
        super().__init__()
        joiner_in_columns(joiner, schema=schema)
        self._joiner = joiner
        self._how = choice("how", how, choices)
        self._sequence, self._sequence_by = None if sequence_by is None else place_of_row("sequence_by", sequence_by), sequence_by
        self._partitions = partition_count(partitions)

    @property
    def called_sequence(self) -> OfRow | None:
        """``sequence_by`` as a stage calls it."""
        called: OfRow | None = self.handling.functions.function("sequence_by", self._sequence_by, self._sequence)
        return called
