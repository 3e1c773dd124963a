"""LatestTable: the content of a table at the end of bounded input."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.record import Record
from coders.key import value_coder
from transforms.replay import MAIN, Operator, Outlet, Replay, Route, at, partition_count
from transforms.table_rows import table_rows
from transforms.table_type import require_bounded, table_key_coder, table_type


class LatestTable(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """The rows that a table has in the end: ``PCollection[Change[K, V]]`` to ``PCollection[tuple[K, V]]``, one element per live row.

    An element carries the timestamp of the row's last change. ``partitions`` is as in :mod:`transforms.replay`. Raises ``ValueError`` when
    applied to windowed or unbounded input or to keys whose coder is not deterministic.

    >>> from beam_joins import Change
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change("k", None, 1, 0, 1), Change("k", 1, 2, 0, 2), Change("l", None, 3, 0, 1), Change("l", 3, None, 0, 2)])
    ...         | LatestTable()
    ...         | beam.Map(print)
    ...     )
    ('k', 2)
    """

    def __init__(self, *, partitions: int | None = None) -> None:
        super().__init__()
        self._partitions = partition_count(partitions)

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Apply the transform."""
        require_bounded("LatestTable", pcoll)
        table = table_type(pcoll)
        keys, values = table_key_coder(table, "the key of LatestTable"), value_coder(table.value)
        routed = pcoll | "Route" >> Route(table_rows("rows", keys, values), to=("rows",), partitions=self._partitions)
        replayed = (routed["rows"],) | "Replay" >> Replay(
            _Last(keys, values), partitions=self._partitions, main_type=beam.typehints.KV[Any, Any]
        )
        latest: PCollection[Any] = replayed[MAIN]
        return latest


class _Last(Operator):
    def __init__(self, keys: Coder, values: Coder) -> None:
        self._keys = keys
        self._values = values

    def replay(self, records: Sequence[Record], ends: Iterable[int], outlet: Outlet) -> Iterator[Any]:
        start = 0
        for end in ends:
            key, value, timestamp, position, _ = records[end - 1]
            if end - start > 1 and records[end - 2].position == position:
                raise ValueError(
                    f"the table has two changes of key {self._keys.decode(key)!r} at position {position}: make it with TableFromChangelog,"
                    " which keeps one"
                )
            start = end
            if value is not None:
                yield at((self._keys.decode(key), self._values.decode(value)), timestamp)
