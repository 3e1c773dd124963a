"""Tables in the form that a transform needs, grouped by key where they do not come in it."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.columns.sorting import combine_chunks, valid
from beam_joins.elements.change import two_changes
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN
from beam_joins.transforms.engine.construction.input_checks import require_one_order
from beam_joins.transforms.engine.construction.kept_signatures import ForEach
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.changelog_operator import LATE, ROWS, upserts
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.replay import Replay, Route
from beam_joins.transforms.engine.stages.replay_options import has_one_turn
from beam_joins.transforms.engine.stages.table_rows import batch_rows, keys_in_python, last_of_each, newest

Needs = Literal["turns", "checked", "whole", "final"]
"""The form of a table that a transform needs.

* ``"turns"``: as ``"checked"`` where there are many turns; otherwise any batches. It is for a transform in
  which all changes of a row meet: that finds two changes of a row at one position by itself, but not a late
  change.
* ``"checked"``: one change of a row at a position, each with the old value that the one before gave.
* ``"whole"``: also, all changes of a row are in one batch, in the order of their positions.
* ``"final"``: only the rows that are there in the end, each with one change: its insert, at the time and
  position of its last change. The final rows of a join are those of the join of final tables. The input is
  bounded and has one turn (:func:`has_one_turn`).
"""


def prepared(table: PCollection[Any], label: str = "Table", *, needs: Needs) -> PCollection[Any]:
    """The table as batches in the form that a transform needs.

    A table that a transform of this library made is checked already and costs nothing. Any other table is
    grouped by its keys, and the run raises ``ValueError`` for two changes of one row at one position.
    ``label`` names the steps.
    """
    if needs == "final":
        finals = prepared(table, needs="whole") | label >> beam.ParDo(ForEach(_finals))
        finals.element_type = ChangeBatch
        return as_table(finals, table_type(table), physical_of(table)._replace(form="final"))
    if needs == "turns" and has_one_turn(table):
        return in_batches(table, f"{label} in batches")
    require_one_order(table_type(table))
    is_so = physical_of(table).is_in("checked" if needs == "turns" else needs)
    return in_batches(table, f"{label} in batches") if is_so else _by_key(table, label)


def _finals(batch: ChangeBatch) -> Iterator[ChangeBatch]:
    rows = last_of_each(newest(batch))
    rows = rows.filter(pa.array(valid(rows["value"])))
    if len(rows):
        before = pa.nulls(len(rows), batch.before.type)
        yield ChangeBatch(key=rows["key"], new=rows["value"], before=before, timestamp=rows["timestamp"], position=rows["position"])


def _by_key(table: PCollection[Any], label: str) -> PCollection[Any]:
    of_table = table_type(table)
    by_key = Route(batch_rows(ROWS), to=(ROWS,), size=physical_of(table).bytes)
    routed = in_batches(table, f"{label} in batches") | f"{label} by key" >> by_key
    checked = (routed[ROWS],) | f"{label} with one change each" >> Replay(
        upserts("records", of_table, partial(_require_one_change, of_table)),
        main_type=ChangeBatch,
        by_time=of_table.order == "time",
        stored={ROWS: of_table.columns},
    )
    return as_table(checked[MAIN], of_table, physical_of(table)._replace(form="whole"))


def _require_one_change(of_table: TableType, lost: pa.Table) -> None:
    twice = lost.filter(pc.invert(pc.is_in(lost["reason"], value_set=pa.array(LATE))))
    if len(twice):
        raise two_changes(keys_in_python(combine_chunks(twice["key"]), of_table)[0], twice["position"][0].as_py())
