"""Reads a table: the rows of a reader, and the table that these are the changelog of."""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, cast

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PBegin, PCollection

from beam_joins import ChangeBatch, Dropped, TableFromChangelog, vectorized
from beam_joins.columns.compared import ComparedTable
from beam_joins.elements.content import Emit
from beam_joins.functions.marked_functions import built_in
from beam_joins.pipelines.changelogs.read_records import Read
from beam_joins.pipelines.formats.changelog_columns import DELETED, KEY, LEFT_OUT, LIFE, LOG, PLACE, TIME
from beam_joins.pipelines.formats.envelopes.row_change import lists_of_names
from beam_joins.pipelines.formats.read_plan import BEHIND_DELETES, ReadPlan
from beam_joins.pipelines.results.counts import Tally
from beam_joins.tables.unchanged import Complete
from beam_joins.transforms.connect.runs import ForEach, label_of, tell_drops
from beam_joins.transforms.connect.tables import at_first_position, compared_as

_TABLE: Final = "Table"


class ReadOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of a transform that reads a table.

    ``table`` is the table, and ``dropped`` the rows that it is not made of, as those of
    :class:`~beam_joins.TableFromChangelog`. ``bad_records`` are also :class:`~beam_joins.Dropped`: their
    ``record`` is a sentence that names file and line, their ``timestamp`` 0. A dropped dict has no ``except_columns``.
    ``rows`` are record batches with the columns about the change, such as ``(time)``, and those of the row, or one
    column ``object`` of dicts; ``counts`` how many records were read or
    passed over, as ``(place, what, records, examples)``.
    """

    table: PCollection[ChangeBatch]
    dropped: PCollection[Dropped]
    bad_records: PCollection[Dropped]
    rows: PCollection[Any]
    counts: PCollection[Tally]


class Reads(NamedTuple):
    """The transform that reads the rows, as a :class:`~beam_joins.pipelines.changelogs.read_records.Read` or the rows
    alone, the table that they are the changelog of, the names of the columns ``about`` the change beside those of the row,
    whether one of these orders the rows (``is_ordered``), and the columns as their database compares them. ``options`` are those
    of the reader on which the table depends.
    """

    rows: beam.PTransform[PBegin, Any]
    table: TableFromChangelog
    about: Sequence[str] = ()
    is_ordered: bool = True
    options: Mapping[str, Any] = MappingProxyType({})
    compared: ComparedTable = ComparedTable()

    def of_run(self, begin: PBegin) -> "Reads":
        """The same in each run."""
        return self


class ReadTable(beam.PTransform[PBegin, Any]):
    """Makes a table of what is read; ``of_run`` says, when the transform is applied, what that is in this run."""

    _all_outputs = False

    def __init__(self, of_run: Callable[[PBegin], Reads]) -> None:
        super().__init__()
        self._of_run = of_run

    def with_outputs(self) -> beam.PTransform[PBegin, ReadOutputs]:
        """The same transform, giving all its outputs: :class:`ReadOutputs`.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        all_outputs = copy.copy(self)
        all_outputs._all_outputs = True
        return cast("beam.PTransform[PBegin, ReadOutputs]", all_outputs)

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        tell_drops(begin.pipeline, label_of(begin.pipeline), are_taken=self._all_outputs)
        reads = self._of_run(begin)
        reads.table.reader = reads.options
        read = begin | "Rows" >> reads.rows
        rows = read.rows if isinstance(read, Read) else read

        def as_read(table: PCollection[Any]) -> PCollection[Any]:
            return compared_as(table if reads.is_ordered else at_first_position(table), reads.compared)

        if not self._all_outputs:
            return as_read(rows | _TABLE >> reads.table)
        made, all_dropped = rows | _TABLE >> reads.table.with_outputs()
        table = as_read(made)
        row_alone = beam.ParDo(ForEach(partial(_row_alone, reads.about))).with_output_types(Dropped)
        dropped: PCollection[Dropped] = all_dropped | "Dropped" >> row_alone
        if isinstance(read, Read):
            return ReadOutputs(table, dropped, read.bad_records, rows, read.counts)
        none: PCollection[Any] = begin | "None" >> beam.Create(list[Any](), reshuffle=False)
        return ReadOutputs(table, dropped, none, rows, none)


def table_label(label: str) -> str:
    """The label of the transform that makes the table within a :class:`ReadTable` of a label."""
    return f"{label}/{_TABLE}"


def _row_alone(about: Sequence[str], dropped: Dropped) -> list[Dropped]:
    """The dropped record without the columns about the change that the reader adds."""
    record = dropped.record
    if isinstance(record, dict):
        alone = record["object"] if "object" in record else {name: value for name, value in record.items() if name not in about}
        return [dropped._replace(record=alone)]
    return [dropped]


def table_of(
    plan: ReadPlan,
    *,
    key: Any = KEY,
    emit: Emit = "updates",
    without_earlier: Literal["fail", "drop"] = "fail",
    completed_by: Complete | None = None,
    except_columns: Sequence[str] = (),
) -> TableFromChangelog:
    """Makes the table of records that are read so: by the key that the reader makes, or one in their ``key`` columns. Their
    places order what nothing else does.
    """
    columns = plan.columns
    return TableFromChangelog(
        key=key,
        timestamp_by=TIME,
        sequence_by=list(plan.positions) or None,
        one_log_by=None if columns.log is None else LOG,
        unchanged_by=vectorized(built_in("columns left out")(partial(_left_out, plan))) if columns.left_out is not None else None,
        completed_by=completed_by if columns.left_out is not None else None,
        without_earlier=without_earlier,
        tie_break_by=vectorized(_ties_of_feed) if columns.is_feed else PLACE,
        apply_as_deletes=DELETED,
        apply_as_inserts=vectorized(_lives) if columns.life is not None else None,
        apply_as_truncates=vectorized(_empties) if columns.truncates else None,
        except_columns=[*plan.about.names, *except_columns],
        emit=emit,
    )


@built_in(PLACE)
def _ties_of_feed(rows: pa.RecordBatch) -> pa.Array:
    """The order of records of a feed with the same sequence and time: an upsert is behind a delete, which is of the row before
    it.
    """
    return pc.if_else(rows[DELETED], rows[PLACE], pc.add(rows[PLACE], BEHIND_DELETES))


@built_in("truncates")
def _empties(rows: pa.RecordBatch) -> pa.Array:
    return rows[DELETED].is_null()


@built_in("inserts")
def _lives(rows: pa.RecordBatch) -> pa.Array:
    return rows[LIFE]


def _left_out(plan: ReadPlan, rows: pa.RecordBatch) -> pa.Array:
    return lists_of_names(rows[LEFT_OUT], plan.takes)


def paths_of(names: Iterable[str], columns: Collection[str] = ()) -> list[list[str]]:
    """Where columns lie within rows: a dot in a name leads into one, unless one of ``columns`` has the whole name.

    >>> paths_of(["customer.id", "Cust. No"], ["Cust. No", "customer"])
    [['customer', 'id'], ['Cust. No']]
    """
    return [[name] if name in columns else name.split(".") for name in names]


def key_in_columns(names: Sequence[str], columns: Collection[str]) -> Any:
    """The key in columns of rows, which lie at :func:`paths_of` their names."""
    paths = paths_of(names, columns)
    if all(len(path) == 1 for path in paths):
        return names[0] if len(names) == 1 else list(names)
    return vectorized(built_in(f"keys at {paths}")(partial(_nested_keys, paths)))


def _nested_keys(paths: list[list[str]], rows: pa.RecordBatch) -> pa.Array:
    columns = [pc.struct_field(rows[path[0]], path[1:]) if path[1:] else rows[path[0]] for path in paths]
    if len(columns) == 1:
        return columns[0]
    missing = reduce(pc.or_, (column.is_null() for column in columns))
    return pa.StructArray.from_arrays(columns, names=[".".join(path) for path in paths], mask=missing)
