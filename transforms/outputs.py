"""The outputs of a transform that drops what it cannot use: the table, and the dropped records with their reasons."""

import copy
from typing import Any, NamedTuple, Self

import apache_beam as beam
from apache_beam.pvalue import PCollection


class Outputs(NamedTuple):
    """A table and what was dropped on the way to it."""

    table: PCollection[Any]
    dropped: PCollection[Any]


class TableTransform(beam.PTransform[Any, Any]):
    """A transform that gives a table, or with :meth:`with_outputs` the table and the records that it dropped."""

    _all_outputs = False

    def with_outputs(self) -> Self:
        """The same transform, giving :class:`Outputs`: ``table`` and ``dropped``, a ``PCollection[Dropped]``.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        both = copy.copy(self)
        both._all_outputs = True
        return both

    def expand(self, pvalue: Any) -> Any:
        """Apply the transform."""
        outputs = self.build(pvalue)
        return outputs if self._all_outputs else outputs.table

    def build(self, pvalue: Any) -> Outputs:
        """Both outputs."""
        raise NotImplementedError
