"""Tables that this library did not make: that a row has one change at a position is not known and is checked."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.changelog import upsert
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import value_coder
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_form import InColumns, InRecords, TableForm, require_one_change
from beam_joins.transforms.engine.table_rows import batch_rows, table_rows
from beam_joins.transforms.engine.table_type import as_table, table_key_coder, table_type
from beam_joins.two_changes import TwoChanges

_ROWS = "rows"


def checked_table(table: PCollection[Any], what: str, partitions: int | None) -> PCollection[Any]:
    """The table with one change of a row at a position, each with the old value that the one before gave; ``what`` names its keys.

    What a transform of this library made is such a table and costs nothing. Any other is grouped by its keys, and the run raises
    ``ValueError`` for two changes of one row at one position. It is for transforms in which the changes of a row do not meet.
    """
    known = table_type(table)
    if known.order != "unknown":
        return table
    form: TableForm
    if table.element_type is ChangeBatch:
        rows, form = batch_rows(_ROWS), InColumns()
    else:
        keys, values = table_key_coder(known, what), value_coder(known.value)
        rows, form = table_rows(_ROWS, keys, values), InRecords(keys, values)
    routed = table | "By key" >> Route(rows, to=(_ROWS,), partitions=partitions)
    checked = (routed[_ROWS],) | "One change each" >> Replay(_OneChange(form), partitions=partitions, main_type=form.element_type)
    return as_table(checked[MAIN], known)


class _OneChange:
    def __init__(self, form: TableForm) -> None:
        self._form = form

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        batch, lost = upsert(read_blocks(blocks)[_ROWS], "records", self._form.encode)
        require_one_change(self._form, lost)
        return self._form.elements(batch)


@contextmanager
def naming_keys(form: TableForm) -> Iterator[None]:
    """Let a kernel's :class:`~beam_joins.two_changes.TwoChanges` name the key as the user has it."""
    try:
        yield
    except TwoChanges as error:
        key = form.keys(pa.array([error.key], pa.binary()))[0] if isinstance(form, InRecords) else error.key
        raise error.of_key(key) from None
