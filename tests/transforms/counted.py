"""What a run has counted."""

from collections import Counter

from apache_beam.metrics import MetricsFilter


def dropped(result):
    """The records that were dropped, by the names of their counters."""
    found = Counter()
    for counter in result.metrics().query(MetricsFilter().with_namespace("beam_joins"))["counters"]:
        if counter.key.metric.name.startswith("dropped_"):
            found[counter.key.metric.name] += counter.committed
    return dict(found)
