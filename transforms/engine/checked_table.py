"""Tables in the form that a transform needs: checked, as others may have made them; whole, all changes of a row in one batch; or final, its last change alone."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.change import two_changes
from beam_joins.sorting import combine_chunks, valid
from beam_joins.transforms.engine.block_writer import MAIN
from beam_joins.transforms.engine.door import in_batches
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.replay_options import has_one_turn
from beam_joins.transforms.engine.table_rows import batch_rows, keys_in_python, last_of_each, newest
from beam_joins.transforms.engine.table_type import TableType, as_table, table_type
from beam_joins.transforms.engine.upserts import LATE, ROWS, upserts


def table_in_turn(table: PCollection[Any], label: str) -> PCollection[Any]:
    """The table as batches for a transform in which all changes of a row meet.

    That finds two changes of a row at one position by itself, but not a late change: where there are many turns it gets a :func:`checked_table`.
    """
    return in_batches(table, f"{label} in batches") if has_one_turn(table) else checked_table(table, label)


def checked_table(table: PCollection[Any], label: str = "Table") -> PCollection[Any]:
    """The table as batches with one change of a row at a position, each with the old value that the one before gave.

    What a transform of this library made is such a table and costs nothing. Any other is grouped by its keys, and the run raises
    ``ValueError`` for two changes of one row at one position. It is for transforms in which the changes of a row do not meet.
    """
    return in_batches(table, f"{label} in batches") if table_type(table).checked else _by_key(table, label)


def whole_table(table: PCollection[Any]) -> PCollection[Any]:
    """As :func:`checked_table`, and all changes of a row are in one batch, in the order of their positions."""
    known = table_type(table)
    return table if known.checked and known.whole else _by_key(table, "Table")


def final_table(table: PCollection[Any], label: str) -> PCollection[Any]:
    """The table of the rows that are there in the end, each with one change: its insert, at the time and position of its last change.

    The final rows of a join are those of the join of final tables. The input is bounded and has one turn (:func:`has_one_turn`).
    """
    known = table_type(table)
    finals = whole_table(table) | label >> beam.FlatMap(_finals)
    finals.element_type = ChangeBatch
    return as_table(finals, known._replace(whole=True, final=True))


def _finals(batch: ChangeBatch) -> Iterator[ChangeBatch]:
    rows = last_of_each(newest(batch))
    rows = rows.filter(pa.array(valid(rows["value"])))
    if len(rows):
        before = pa.nulls(len(rows), batch.before.type)
        yield ChangeBatch(key=rows["key"], new=rows["value"], before=before, timestamp=rows["timestamp"], position=rows["position"])


def _by_key(table: PCollection[Any], label: str) -> PCollection[Any]:
    known = table_type(table)

    routed = in_batches(table, f"{label} in batches") | f"{label} by key" >> Route(batch_rows(ROWS), to=(ROWS,))
    checked = (routed[ROWS],) | f"{label} with one change each" >> Replay(
        upserts("records", known, partial(_require_one_change, known)), main_type=ChangeBatch, by_time=known.order == "time"
    )
    return as_table(checked[MAIN], known._replace(whole=True))


def _require_one_change(known: TableType, lost: pa.Table) -> None:
    twice = lost.filter(pc.invert(pc.is_in(lost["reason"], value_set=pa.array(LATE))))
    if len(twice):
        raise two_changes(keys_in_python(combine_chunks(twice["key"]), known)[0], twice["position"][0].as_py())
