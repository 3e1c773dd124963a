"""Batches of a table that a runner carries from stage to stage: where blocks lie in the folder of the run, batches
do so too, and references to them travel.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.coders.change_batch import ChangeBatchCoder
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_files import BlockFolder
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures
from beam_joins.transforms.engine.construction.runner_abilities import abilities
from beam_joins.transforms.engine.stages.replay_options import blocks_for


class LaidBatches:
    """Reads batches by the references of :func:`laid`; without a folder they are no references."""

    def __init__(self, folder: BlockFolder | None) -> None:
        self._folder, self._coder = folder, ChangeBatchCoder()

    def read(self, element: Any) -> ChangeBatch:
        """The batch that an element is or refers to."""
        batch: ChangeBatch = element if self._folder is None else self._coder.decode(self._folder.read(element))
        return batch

    def free(self, element: Any) -> None:
        """Give back the space of a batch that nobody reads again."""
        if self._folder is not None and self._folder.frees:
            self._folder.free([element])


class _Lay(KeptSignatures):
    """Batches to references to them, or to small ones as they are encoded, which begin with the length of a part."""

    def __init__(self, folder: BlockFolder) -> None:
        self._folder, self._coder = folder, ChangeBatchCoder()

    def start_bundle(self) -> None:
        self._file = self._folder.file()
        self._written = list[WindowedValue]()

    def process(self, element: ChangeBatch, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam) -> None:
        reference = self._file.write(self._coder.encode(element), self._coder.estimate_size(element))
        self._written.append(WindowedValue(reference, timestamp, (window,)))

    def finish_bundle(self) -> list[WindowedValue]:
        self._file.close()  # a runner may read in the same bundle, and in a store the file is there from now on
        return self._written


class _Take(KeptSignatures):
    def __init__(self, folder: BlockFolder) -> None:
        self._laid = LaidBatches(folder)

    def process(self, element: bytes) -> Iterator[ChangeBatch]:
        yield self._laid.read(element)
        self._laid.free(element)


def laid(table: PCollection[Any], label: str) -> tuple[PCollection[Any], LaidBatches]:
    """A bounded table for a DoFn that no runner fuses with those before it, such as a DoFn with a side input;
    and the reader of its elements for the DoFn.
    """
    folder = None if abilities(table.pipeline).keeps_groups else blocks_for(table)
    if folder is None:
        return table, LaidBatches(None)
    return table | label >> beam.ParDo(_Lay(folder)).with_output_types(bytes), LaidBatches(folder)


def flattened(tables: tuple[PCollection[Any], ...], label: str) -> PCollection[Any]:
    """The batches of all tables. The direct runner keeps flattened batches in memory; others pass them on as they come."""
    able = abilities(tables[0].pipeline)
    keeps = able.in_memory and not able.keeps_groups and all(table.is_bounded for table in tables)
    folder = blocks_for(tables[0]) if keeps else None
    together: PCollection[Any]
    if folder is None:
        together = tables | label >> beam.Flatten()
    else:
        references = (table | f"{label} {n}" >> beam.ParDo(_Lay(folder)).with_output_types(bytes) for n, table in enumerate(tables))
        together = tuple(references) | f"{label} references" >> beam.Flatten() | label >> beam.ParDo(_Take(folder))
    together.element_type = ChangeBatch
    return together
