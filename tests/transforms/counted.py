"""What a run has counted."""

from collections import Counter

from apache_beam.metrics import MetricsFilter


def dropped(result):
    """The records that were dropped, by the names of their counters."""
    actual = Counter()
    for counter in result.metrics().query(MetricsFilter().with_namespace("beam_joins"))["counters"]:
        if counter.key.metric.name.startswith("dropped_"):
            actual[counter.key.metric.name] += counter.committed
    return dict(actual)
