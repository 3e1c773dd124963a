"""The events of Nexmark as a source without an end, read in the order of their times."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_joins.pipelines.changelogs.source_reads import ReadPiece, Timed
from benchmarks.nexmark.auctions import EVENTS_A_SECOND, FIRST_MILLISECONDS

AT: Final = "at"
"""The column of the event time in microseconds."""
_MILLISECOND, _SECOND = 1_000, 1_000_000
_CLOSING: Final = 3_600 * _SECOND
_ROWS: Final = 5_000
"""Rows of a batch at most."""


@dataclass(frozen=True)
class FollowedEvents:
    """The tables of a folder with so many events, each read by its name as fast as it is taken."""

    data: Path
    events: int

    @property
    def end(self) -> int:
        """The time behind the last event."""
        return FIRST_MILLISECONDS * _MILLISECOND + self.events * _SECOND // EVENTS_A_SECOND

    def rows(self, table: str) -> pa.Table:
        """The rows of a table with the column ``at``; those of the fixed table have the time of the first event."""
        rows = pq.read_table(self.data / table)
        if "ms" not in rows.column_names:
            return rows.append_column(AT, pa.array([FIRST_MILLISECONDS * _MILLISECOND] * len(rows), pa.int64()))
        return rows.append_column(AT, pc.multiply(rows["ms"], _MILLISECOND))

    def range(self, element: str) -> tuple[int, int]:
        """All rows of a table."""
        return 0, len(self.rows(element))

    def pieces(self, element: str, place: int, end: int | None) -> Iterator[ReadPiece]:
        """The rows from a place on; behind them the watermark passes the end."""
        rows = self.rows(element)
        while place < len(rows):
            batch = rows.slice(place, _ROWS).combine_chunks().to_batches()[0]
            place += len(batch)
            times = batch.column(AT)
            yield ReadPiece(place, [Timed(batch, times[0].as_py())], times[-1].as_py(), len(batch))
        if place == len(rows):
            yield ReadPiece(place + 1, [], self.end + _CLOSING, 0)

    def close(self) -> None:
        """Nothing is open."""
