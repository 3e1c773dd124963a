"""Flattens the batches of several stages into one table.

The direct runner keeps in memory what it flattens: there batches lie in the folder of the run, as blocks do, and
references to them travel. Spark and Flink pass batches on as they come.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.coders.change_batch import ChangeBatchCoder
from beam_joins.transforms.engine.block_files import BlockFolder
from beam_joins.transforms.engine.replay_options import blocks_for
from beam_joins.transforms.engine.run_folder import is_direct


def flattened(tables: tuple[PCollection[Any], ...], label: str) -> PCollection[Any]:
    """The batches of all tables."""
    in_memory = is_direct(tables[0].pipeline) and all(table.is_bounded for table in tables)
    folder = blocks_for(tables[0]) if in_memory else None
    together: PCollection[Any]
    if folder is None:
        together = tables | label >> beam.Flatten()
    else:
        laid = (table | f"{label} {n}" >> beam.ParDo(_Lay(folder)).with_output_types(bytes) for n, table in enumerate(tables))
        together = tuple(laid) | f"{label} references" >> beam.Flatten() | label >> beam.ParDo(_Take(folder))
    together.element_type = ChangeBatch
    return together


class _Lay(beam.DoFn):
    """Batches to references to them, or to small ones as they are encoded, which begin with the length of a part."""

    def __init__(self, folder: BlockFolder) -> None:
        self._folder, self._coder = folder, ChangeBatchCoder()

    def start_bundle(self) -> None:
        self._file = self._folder.file()

    def process(self, element: ChangeBatch) -> Iterator[bytes]:
        yield self._file.write(self._coder.encode(element), self._coder.estimate_size(element))

    def finish_bundle(self) -> None:
        self._file.close()


class _Take(beam.DoFn):
    def __init__(self, folder: BlockFolder) -> None:
        self._folder, self._coder = folder, ChangeBatchCoder()

    def process(self, element: bytes) -> Iterator[ChangeBatch]:
        yield self._coder.decode(self._folder.read(element))
        if self._folder.frees:
            self._folder.free([element])
