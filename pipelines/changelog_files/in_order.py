"""The changes of a run in the order of their positions: sorted by partition in the workers, and merged into one file at the end.

So the files of several runs, one after the other, are the file of one run, byte for byte, whatever the number of partitions is.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection

from beam_joins import ChangeBatch
from beam_joins.coders.block import read_blocks
from beam_joins.keys.columns import Ints
from beam_joins.keys.hashes import hashes
from beam_joins.pipelines.changelog_files.paths import is_local
from beam_joins.pipelines.changelog_files.write_parts import WrittenPart
from beam_joins.pipelines.command.input_error import writing
from beam_joins.sorting import combine_chunks, integers
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.replay import Route

_ROWS: Final = "rows"
_WINDOW: Final = 1 << 16
"""About so many changes are merged at a time."""
_BATCH: Final = 1 << 14

AT_A_TIME: Final = 16_384
"""So many changes are encoded at a time, each with its old and its new row."""


class Written(Protocol):
    """A result of this name; ``create`` gives a writer of its format to a new file."""

    @property
    def name(self) -> str:
        """What it is called."""

    def create(self, path: str) -> Any:
        """A writer with ``write``, which takes an array of records, and ``close``."""


Encode = Callable[[ChangeBatch], Iterator[tuple[ChangeBatch, pa.Array]]]
"""Gives the changes of a batch, some at a time, and their records as the output has them."""


class WriteInOrder(beam.PTransform[Any, Any]):
    """The changes of a table, each with its record, into one sorted part a partition: ``PCollection[WrittenPart]`` for :func:`merge`.

    Changes at one position are in the order of their keys' hashes. Nothing is remembered from one run to the next.
    """

    def __init__(self, output: Written, directory: str, encode: Encode) -> None:
        super().__init__()
        self._output = output
        self._directory = directory
        self._encode = encode

    def expand(self, pcoll: PCollection[ChangeBatch]) -> PCollection[WrittenPart]:
        """Apply the transform."""
        encode, name, directory = self._encode, self._output.name, self._directory

        def rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
            for some, records in encode(batch):
                hashed = hashes(some.key)
                columns = {
                    "position": some.position,
                    "timestamp": some.timestamp,
                    "key": pa.array(hashed.view(np.int64)),
                    "record": records,
                }
                writer.send(_ROWS, hashed, pa.record_batch(list(columns.values()), names=list(columns)))

        routed = pcoll | "By key" >> Route(rows, to=(_ROWS,))
        parts: PCollection[WrittenPart] = (
            routed[_ROWS]
            | "Of a partition" >> beam.GroupByKey()
            | "Sort" >> beam.MapTuple(lambda partition, blocks: _write_sorted(blocks, name, directory)).with_output_types(WrittenPart)
        )
        return parts


def some_at_a_time(batch: ChangeBatch, rows: pa.Array) -> Iterator[tuple[ChangeBatch, pa.Array, pa.Array]]:
    """The changes of a batch, some at a time, with their old and their new rows; ``rows`` are those of all values of the batch."""
    for start in range(0, len(batch), AT_A_TIME):
        columns = {name: getattr(batch, name).slice(start, AT_A_TIME) for name in ("key", "new", "before", "timestamp", "position")}
        some = ChangeBatch(**columns)
        yield some, rows.take(some.before), rows.slice(start, len(some))


def _write_sorted(blocks: Iterable[bytes], name: str, directory: str) -> WrittenPart:
    rows = read_blocks(blocks)[_ROWS].select(["position", "key", "record"])
    rows = rows.take(pa.array(_order(rows)))
    path = os.path.join(directory, f"{uuid.uuid4().hex}-{name}.arrow")
    with writing(path), FileSystems.create(path) as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows, _BATCH)
    return WrittenPart(name, path, len(rows))


def merge(output: Written, parts: Sequence[str], whole: str) -> None:
    """Write all records of sorted parts in the order of their positions into a new file. Raises OSError."""
    tables = [_read(part) for part in parts]
    positions = [integers(table["position"]) for table in tables]
    together = np.sort(np.concatenate(positions)) if positions else np.zeros(0, np.int64)
    cuts = np.unique(together[_WINDOW::_WINDOW])
    edges = [[0, *np.searchsorted(each, cuts).tolist(), len(each)] for each in positions]
    writer = output.create(whole)
    try:
        for window in range(len(cuts) + 1 if tables else 0):
            slices = (table.slice(edge[window], edge[window + 1] - edge[window]) for table, edge in zip(tables, edges, strict=True))
            rows = pa.concat_tables(slices)
            writer.write(combine_chunks(rows["record"]).take(pa.array(_order(rows))))
    finally:
        writer.close()


def _order(rows: pa.Table) -> Ints:
    by: Ints = np.lexsort([integers(rows["key"]), integers(rows["position"])])
    return by


def _read(part: str) -> pa.Table:
    if is_local(part):
        return pa.ipc.open_file(pa.memory_map(part)).read_all()
    with FileSystems.open(part) as file:
        return pa.ipc.open_file(file.read()).read_all()
