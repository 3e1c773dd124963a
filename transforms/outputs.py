"""The outputs of a transform that drops what it cannot use: the main one, and the dropped records with their reasons."""

import copy
from typing import Any, NamedTuple, Self

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.transforms.outlet import DROPPED


class Outputs(NamedTuple):
    """A table and what was dropped on the way to it."""

    table: PCollection[Any]
    dropped: PCollection[Any] | None


class WithOutputs(beam.PTransform[Any, Any]):
    """A transform that gives its main output, or with :meth:`with_outputs` a named tuple of all."""

    _all_outputs = False

    def with_outputs(self) -> Self:
        """The same transform, giving a named tuple of all its outputs, ``dropped`` (a ``PCollection[Dropped]``) among them.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        all_outputs = copy.copy(self)
        all_outputs._all_outputs = True
        return all_outputs

    def expand(self, pvalue: Any) -> Any:
        """Apply the transform."""
        outputs = self.build(pvalue)
        return outputs if self._all_outputs else outputs[0]

    @property
    def dropping(self) -> tuple[str, ...]:
        """The output of dropped records, if it was asked for: what no one asked for is not made."""
        return (DROPPED,) if self._all_outputs else ()

    def all_dropped(self, *stages: dict[str, PCollection[Any]]) -> PCollection[Any] | None:
        """The dropped records of several stages, if they were asked for."""
        if not self._all_outputs:
            return None
        dropped = tuple(stage[DROPPED] for stage in stages)
        return dropped | "Dropped" >> beam.Flatten() if len(dropped) > 1 else dropped[0]

    def build(self, pvalue: Any) -> Any:
        """The named tuple of all outputs, the main one first."""
        raise NotImplementedError
