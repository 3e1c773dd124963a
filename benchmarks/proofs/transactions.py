"""The transactions of the bank: one unit from one of ten accounts to another, as they arrive."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_joins.pipelines.changelogs.source_reads import ReadPiece, Timed
from beam_joins.pipelines.results.publication import appear_whole

SCHEMA: Final = pa.schema(
    {"id": pa.int64(), "from_account": pa.int64(), "to_account": pa.int64(), "amount": pa.int64(), "at": pa.int64()}
)
_SECONDS: Final = 60
_DELAY_SECONDS: Final = 10
_ROWS_OF_A_GROUP: Final = 10_000
_DAY: Final = 86_400_000_000


def transactions(count: int) -> pa.Table:
    """The transactions in the order of their arrival.

    They are those of Jamie Brandon's streaming-consistency: seed 42, for each one a delay of up to ten
    seconds, the account that pays and the one that is paid, and one of 60 seconds as its event time, which is
    in microseconds here.

    >>> transactions(3).to_pylist()[0]
    {'id': 0, 'from_account': 0, 'to_account': 4, 'amount': 1, 'at': 0}
    """
    draw = random.Random(42)
    drawn = [(draw.uniform(0, _DELAY_SECONDS), draw.randint(0, 9), draw.randint(0, 9)) for _ in range(count)]
    delay, payer, payee = (np.array(column) for column in zip(*drawn, strict=True))
    ids = np.arange(count)
    seconds = _SECONDS * ids // count
    table = pa.table([ids, payer, payee, np.ones(count, np.int64), seconds * 1_000_000], schema=SCHEMA)
    return table.take(np.lexsort((ids, seconds + delay)))


def provide_transactions(count: int, directory: Path) -> Path:
    """The directory with a Parquet file of the transactions; it is written on first use."""
    folder = directory / f"bank-{count}"
    path = folder / "transactions.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with appear_whole(path) as ((part,), _):
            pq.write_table(transactions(count), part, compression="zstd", row_group_size=_ROWS_OF_A_GROUP)
    return folder


class Arrivals:
    """The same file as an unbounded source, in the order of arrival.

    Behind its last row it tells a time a day later, so that the watermark passes all rows.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: pq.ParquetFile | None = None

    def range(self, element: str) -> tuple[int, int]:
        """All row groups."""
        return 0, self._opened().num_row_groups

    def pieces(self, element: str, place: int, end: int | None) -> Iterator[ReadPiece]:
        """A row group each."""
        file = self._opened()
        groups = file.num_row_groups
        for group in range(place, groups):
            batch = file.read_row_group(group).combine_chunks().to_batches()[0]
            times = batch["at"].to_numpy()
            largest = int(times.max()) + (_DAY if group == groups - 1 else 0)
            yield ReadPiece(group + 1, [Timed(batch, int(times.min()))], largest, len(batch))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> pq.ParquetFile:
        if self._file is None:
            self._file = pq.ParquetFile(self._path)
        return self._file
