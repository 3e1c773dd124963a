"""TableFromChangelog: the table of a raw changelog, with the options of Spark's AUTO CDC."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from beam_joins.changelog import upsert
from beam_joins.coders.block import read_blocks
from beam_joins.coders.key import encode_key, key_coder, value_coder
from beam_joins.content import Emit
from beam_joins.fields import (
    Deleting,
    Field,
    Fields,
    delete_getter,
    getter,
    key_getter,
    micros,
    place,
    place_getter,
    tie_order,
)
from beam_joins.record import Record
from beam_joins.sorting import combine_chunks
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.changelog_columns import ChangelogColumns, column_rows, in_columns
from beam_joins.transforms.engine.element_types import annotated, known, pair_types
from beam_joins.transforms.engine.notes import columns_are_there, note_columns
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import Outputs, WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route, RowRouter
from beam_joins.transforms.engine.table_form import InColumns, InRecords, TableForm
from beam_joins.transforms.engine.table_type import Order, TableType, as_table, require_bounded

ROWS = "rows"


class TableFromChangelog(WithOutputs):
    """The table of a raw changelog: ``PCollection[Change[K, V]]``, old values filled in.

    The changelog is a ``PCollection[tuple[K, V | None]]``, where ``None`` is a tombstone; or a collection of any elements, with ``key=``.
    The functions among the options get the element as it is.

    A changelog in columns, ``PCollection[pyarrow.Table]`` or ``PCollection[pyarrow.RecordBatch]``, becomes a table in columns,
    ``PCollection[ChangeBatch]``, whose rows never become Python objects unless a function of the user's asks for them. Its values are its
    rows; it needs ``key`` and one of ``timestamp_by`` and ``sequence_by``; the functions may be :class:`~beam_joins.vectorized`. Joins of
    such tables give such tables; :class:`~beam_joins.TableToRecords` makes one of changes.

    * ``key``: a field name, a list of field names (their values make a tuple; null if one is null), or a function. The element is then the
      value. Keys that are equal in Python are equal here.
    * ``timestamp_by``: a field name or function that gives the event time: microseconds since the epoch, a datetime with a time zone, or
      a Beam ``Timestamp``. By default the element's timestamp, cut to the millisecond, as Beam carries it between stages.
    * ``sequence_by``: a field name or function that gives the position, an int of 64 bits (an LSN, an offset, a commit number). By
      default the event time is the position. A list of names, or a function that gives a tuple, orders by several numbers as AUTO CDC's
      struct does: in ``["commit_lsn", "lsn"]`` the first is the position, so that a transaction is seen whole, and the others say which
      change of a row within it is the last.
    * ``tie_break_by``: a last resort, in the same form: which of several records of one key is the last where neither the sequence nor the
      event time says so, such as the offset in a file. They count as ambiguous all the same.
    * ``apply_as_deletes``: a function that is true for an element that deletes its row; the name of a field that is; or a field and its
      values that mean delete, ``{"op": ["d", "t"]}``, in any case and ``None`` written ``"null"``. Its other values are then words for inserts and
      updates (:data:`beam_joins.operations.UPSERTS`), and the run raises ``ValueError`` for one that is not, naming value and field.
    * ``except_columns``: names to leave out of the value (elements that are mappings). A name that no record has fails the run.
    * ``emit``: ``"updates"``, ``"changes"`` (only those that change the value), ``"records"`` (tombstones of absent rows too) or
      ``"latest"`` (only the last change of each row that is there in the end); see :data:`beam_joins.content.Emit`.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    Dropped, counted, and an output of :meth:`with_outputs`, are records with a ``"null_key"``, a ``"null_sequence"`` or a
    ``"null_timestamp"``, and all but one of those with one key and one place in the sequence: a ``"duplicate_position"`` is the same record
    again; an ``"ambiguous_position"`` is another one, which lost because the other has the later timestamp, then the larger
    ``tie_break_by``, then the larger canonical encoding (fields by name). Give a finer ``sequence_by`` where these are counted.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option, when applied to windowed or unbounded input or to keys whose coder is not
    deterministic, and in the run for a field that is missing, for a name in ``except_columns`` that no record has, for a position that is not an int of 64 bits, and for several records of one
    key none of which has a time or a sequence.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> changelog = [{"id": 1, "lsn": 8, "name": "Bob"}, {"id": 1, "lsn": 7, "name": "Ann"}]
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(changelog)
    ...         | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
    ...         | beam.Map(print)
    ...     )
    Change(key=1, old=None, new={'name': 'Ann'}, timestamp=7, position=7)
    Change(key=1, old={'name': 'Ann'}, new={'name': 'Bob'}, timestamp=8, position=8)
    """

    def __init__(
        self,
        *,
        key: Field | Sequence[str] | None = None,
        timestamp_by: Field | None = None,
        sequence_by: Fields | None = None,
        tie_break_by: Fields | None = None,
        apply_as_deletes: Deleting | None = None,
        except_columns: Sequence[str] = (),
        emit: Emit = "updates",
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if isinstance(except_columns, str) or not all(isinstance(name, str) for name in except_columns):
            raise ValueError(f"except_columns={except_columns!r}: give a list of column names")
        self._key = None if key is None else key_getter(key)
        self._timestamp = None if timestamp_by is None else getter("timestamp_by", timestamp_by)
        self._sequence = None if sequence_by is None else place_getter("sequence_by", sequence_by)
        self._tie = None if tie_break_by is None else place_getter("tie_break_by", tie_break_by)
        self._deletes = None if apply_as_deletes is None else delete_getter(apply_as_deletes)
        self._except = frozenset(except_columns)
        self._columns = ChangelogColumns(key, timestamp_by, sequence_by, apply_as_deletes, self._except, tie_break_by)
        self._emit: Emit = choice("emit", emit, Emit)
        self._partitions = partition_count(partitions)

    def build(self, pvalue: PCollection[Any]) -> Outputs:
        """The table and the dropped records."""
        require_bounded("TableFromChangelog", pvalue)
        form: TableForm
        handling, functions = self.handling, self.handling.functions
        if in_columns(pvalue):
            rows = functions.route_batches(column_rows(ROWS, self._called_columns()), lambda batch: ((r,) for r in batch.to_pylist()))
            form, known_type = InColumns(), TableType()
        else:
            key_type, value_type = self._types(pvalue.element_type)
            keys, values = key_coder(key_type, "the key of TableFromChangelog"), value_coder(value_type)
            rows = functions.route(self._rows(keys, values))
            form, known_type = InRecords(keys, values), TableType(key_type, value_type)
        timed = self._columns.timestamp is None
        routed = pvalue | "Route" >> Route(rows, to=(ROWS, *self.dropping, *handling.tags), partitions=self._partitions, timed=timed)
        handling.collect(routed)
        replayed = (routed[ROWS],) | "Replay" >> Replay(
            _Upserts(self._emit, form, self._columns.sequence is None),
            to=(MAIN, *self.dropping),
            partitions=self._partitions,
            main_type=form.element_type,
            check=columns_are_there("except_columns", ROWS, self._except) if self._except else None,
        )
        order: Order = "time" if self._columns.sequence is None else "sequence"
        return Outputs(as_table(replayed[MAIN], known_type._replace(order=order)), self.all_dropped(routed, replayed))

    def _rows(self, keys: Coder, values: Coder) -> RowRouter:
        given, called = self._columns, self.handling.functions.function
        key_of, timestamp_of = called("key", given.key, self._key), called("timestamp_by", given.timestamp, self._timestamp)
        sequence_of, tie_of = called("sequence_by", given.sequence, self._sequence), called("tie_break_by", given.tie, self._tie)
        deletes, left_out = called("apply_as_deletes", given.deletes, self._deletes), self._except

        def rows(element: Any, timestamp: int, writer: BlockWriter) -> None:
            key, value = (key_of(element), element) if key_of else _pair(element)
            if timestamp_of:
                time = timestamp_of(element)
                if time is None:
                    return writer.drop("null_timestamp", element, timestamp)
                timestamp = micros(time)
            if key is None:
                return writer.drop("null_key", element, timestamp)
            at, within = timestamp, b""
            if sequence_of:
                placed = place("sequence_by", sequence_of(element))
                if placed is None:
                    return writer.drop("null_sequence", element, timestamp)
                at, within = placed
            if left_out:
                note_columns(writer.noted(ROWS), element if key_of else value, left_out)
            if deletes and deletes(element):
                value = None
            elif left_out and value is not None:
                value = _without(value, left_out)
            encoded_key = encode_key(keys, key, "the key")
            encoded = None if value is None else values.encode(value)
            tie = tie_order(tie_of(element)) if tie_of else b""
            return writer.send(ROWS, encoded_key, Record(encoded_key, encoded, timestamp, at, 0, within, tie))

        return rows

    def _called_columns(self) -> ChangelogColumns:
        options = {
            "key": "key",
            "timestamp": "timestamp_by",
            "sequence": "sequence_by",
            "deletes": "apply_as_deletes",
            "tie": "tie_break_by",
        }
        given = {name: getattr(self._columns, name) for name in options}
        called = self.handling.functions.function
        functions = {name: called(options[name], spec) for name, spec in given.items() if callable(spec)}
        if isinstance(self._columns.deletes, Mapping) and self.handling.tags:  # record by record, as one may be bad
            functions["deletes"] = called("apply_as_deletes", self._columns.deletes, self._deletes)
        return self._columns._replace(**functions)

    def _types(self, element_type: Any) -> tuple[Any, Any]:
        if self._key is None:
            return pair_types(element_type)
        value_type = Any if self._except else known(element_type)
        if isinstance(self._columns.key, str):
            return annotated(element_type, self._columns.key), value_type
        return annotated(self._columns.key, "return"), value_type


class _Upserts:
    def __init__(self, emit: Emit, form: TableForm, ordered_by_time: bool) -> None:
        self._emit: Emit = emit
        self._form = form
        self._ordered_by_time = ordered_by_time

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        rows = read_blocks(blocks)[ROWS]
        batch, lost = upsert(rows, self._emit, self._form.encode)
        if len(lost) and self._ordered_by_time:
            self._require_order(lost)
        for reason in ("duplicate_position", "ambiguous_position"):
            dropped = lost.filter(pc.equal(lost["reason"], reason))
            writer.drop_rows(reason, len(dropped), partial(self._records, dropped))
        return self._form.elements(batch)

    def _records(self, lost: pa.Table) -> Iterable[tuple[Any, int]]:
        pairs = zip(self._form.keys(combine_chunks(lost["key"])), self._form.values(combine_chunks(lost["value"])), strict=True)
        return zip(pairs, lost["timestamp"].to_pylist(), strict=True)

    def _require_order(self, lost: pa.Table) -> None:
        unordered = lost.filter(pc.less_equal(lost["position"], MIN_TIMESTAMP.micros))
        if len(unordered):
            key = self._form.keys(combine_chunks(unordered["key"]))[0]
            raise ValueError(
                f"several records have the key {key!r} and none has an event time to order them by: give sequence_by= or timestamp_by=,"
                " or timestamps to the elements"
            )


def _pair(element: Any) -> tuple[Any, Any]:
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"TableFromChangelog takes (key, value) pairs, or any elements with key=: it got {element!r} without key=")
    return element


def _without(value: Any, left_out: frozenset[str]) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"except_columns needs mappings, not {type(value).__name__}: leave columns out with MapTable")
    return {name: column for name, column in value.items() if name not in left_out}
