"""Tables that this library did not make: that a row has one change at a position is not known and is checked."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.change import two_changes
from beam_joins.changelog import upsert
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.door import in_batches
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_rows import batch_rows, keys_in_python
from beam_joins.transforms.engine.table_type import TableType, as_table, table_type

_ROWS = "rows"


def checked_table(table: PCollection[Any]) -> PCollection[Any]:
    """The table as batches with one change of a row at a position, each with the old value that the one before gave.

    What a transform of this library made is such a table and costs nothing. Any other is grouped by its keys, and the run raises
    ``ValueError`` for two changes of one row at one position. It is for transforms in which the changes of a row do not meet.
    """
    return in_batches(table) if table_type(table).checked else _by_key(table)


def whole_table(table: PCollection[Any]) -> PCollection[Any]:
    """As :func:`checked_table`, and all changes of a row are in one batch, in the order of their positions."""
    known = table_type(table)
    return table if known.checked and known.whole else _by_key(table)


def _by_key(table: PCollection[Any]) -> PCollection[Any]:
    known = table_type(table)

    def one_change(inputs: dict[str, pa.Table], writer: BlockWriter) -> Iterator[ChangeBatch]:
        yield table_of(inputs[_ROWS], known)

    routed = in_batches(table) | "By key" >> Route(batch_rows(_ROWS), to=(_ROWS,))
    checked = (routed[_ROWS],) | "One change each" >> Replay(one_change, main_type=ChangeBatch)
    return as_table(checked[MAIN], known._replace(whole=True))


def table_of(rows: pa.Table, known: TableType) -> ChangeBatch:
    """The changes of a table from its newest values; raises ``ValueError`` for two changes of one row at one position."""
    batch, lost = upsert(rows, "records")
    if len(lost):
        key = keys_in_python(combine_chunks(lost["key"]), known)[0]
        raise two_changes(key, lost["position"][0].as_py())
    return batch
