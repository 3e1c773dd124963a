"""Counts the changes of the tables and views of a SQL file, by their names."""

from typing import Any, Final

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch
from beam_joins.transforms.connect.runs import KeptSignatures
from beam_joins.transforms.connect.tables import in_batches

_NAMESPACE: Final = "beam_joins.run"


class CountChanges(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """Counts the changes of a table by a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        counted: PCollection[Any] = in_batches(pcoll) | beam.ParDo(_Count(self._name)).with_output_types(int)
        return counted


class _Count(KeptSignatures):
    def __init__(self, name: str) -> None:
        self._counter = Metrics.counter(_NAMESPACE, name)

    def process(self, element: ChangeBatch) -> None:
        """Count the changes of a batch."""
        self._counter.inc(len(element))


def change_counts(result: Any) -> dict[str, int] | None:
    """The counts of a run that has ended, by the names of those that are not 0; ``None`` where its runner has no metrics."""
    try:
        counters = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))["counters"]
    except NotImplementedError:
        return None
    return {each.key.metric.name: int(each.result or 0) for each in counters}
