"""TableFromChangelog: the table of a raw changelog, with the options of Spark's AUTO CDC."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from beam_joins.batch import ChangeBatch
from beam_joins.coders.key import key_coder
from beam_joins.content import Emit
from beam_joins.fields import Deleting, Field, Fields, Truncating, names_in
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions import vectorized
from beam_joins.keys.opaque import is_opaque
from beam_joins.transforms.engine.arrow_input import arrow_bytes, arrow_schema, declared_schema, is_arrow
from beam_joins.transforms.engine.block_writer import MAIN
from beam_joins.transforms.engine.changelog import ChangelogRows, no_records, options_of, require_columns_there
from beam_joins.transforms.engine.element_types import annotated, columns_of_type, known, pair_types
from beam_joins.transforms.engine.notes import columns_are_there
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import WithOutputs
from beam_joins.transforms.engine.records import RecordRoute
from beam_joins.transforms.engine.replay import Replay
from beam_joins.transforms.engine.replay_options import has_one_turn
from beam_joins.transforms.engine.table_rows import records_of
from beam_joins.transforms.engine.table_type import Order, TableType, as_table
from beam_joins.transforms.engine.unbounded import require_bounded, require_global
from beam_joins.transforms.engine.upserts import ROWS, upserts


class TableFromChangelog(WithOutputs):
    """The table of a raw changelog: ``PCollection[ChangeBatch]``, old values filled in; :class:`~beam_joins.TableToChanges` gives its changes one by one.

    The changelog is a ``PCollection[tuple[K, V | None]]``, where ``None`` is a tombstone; or a collection of any elements, with ``key=``.
    The functions among the options get the element as it is. Keys and values are opaque, Python objects, unless ``schema`` declares columns.

    Or the changelog is in Arrow columns, ``PCollection[pyarrow.Table]`` or ``PCollection[pyarrow.RecordBatch]``: its values are its rows, which
    become Python objects only where a function of one record needs them. It needs ``key`` and one of ``timestamp_by`` and ``sequence_by``; the
    functions may be :class:`~beam_joins.vectorized`. Its columns must be known when the pipeline is built: from its reader, from the batches
    of a ``beam.Create``, or from ``schema``.

    * ``key``: a field name, a list of field names (their values make a tuple; null if one is null), or a function. The element is then the
      value. Keys that are equal in Python are equal here.
    * ``timestamp_by``: a field name or function that gives the event time: microseconds since the epoch, a datetime with a time zone, or
      a Beam ``Timestamp``. By default the element's timestamp, cut to the millisecond, as Beam carries it between stages.
    * ``sequence_by``: a field name or function that gives the position, an int of 64 bits (an LSN, an offset, a commit number). By
      default the event time is the position. A list of names, or a function that gives a tuple, orders by several numbers as AUTO CDC's
      struct does: in ``["commit_lsn", "lsn"]`` the first is the position, so that a transaction is seen whole, and the others say which
      change of a row within it is the last.
    * ``tie_break_by``: a last resort, in the same form, such as the offset in a file: orders records of one key that neither the sequence nor the
      event time orders. All but the last are dropped as ambiguous all the same.
    * ``apply_as_deletes``: a function that is true for an element that deletes its row; the name of a field that is; or a field and its
      values that mean delete, ``{"op": ["d", "t"]}``, in upper or lower case, ``None`` written as ``"null"``. All other values must be words for inserts and
      updates (:data:`beam_joins.operations.UPSERTS`); the run raises ``ValueError`` for any other word, naming value and field.
    * ``apply_as_truncates``: a function that is true for an element that empties the table, or a field and its values that mean so, ``{"op": ["t"]}``. It needs
      a time and a sequence as others do, and no key. It deletes all rows of the table that come before it, at its time and position.
    * ``except_columns``: names to leave out of the value (elements that are mappings). A name that no record has fails the run, or the construction where the columns are known.
    * ``emit``: ``"updates"``, ``"changes"`` (only those that change the value), ``"records"`` (tombstones of absent rows too) or
      ``"latest"`` (only the last change of each row that is there in the end); see :data:`beam_joins.content.Emit`.
    * ``schema``: the columns of the records, a ``pyarrow.Schema``, a ``NamedTuple`` class or a dataclass; of pairs, those of their values. Values
      are then columns, and so are keys that are fields.

    Dropped, counted, and an output of :meth:`with_outputs`, are records with a ``"null_key"``, a ``"null_sequence"`` or a
    ``"null_timestamp"``, and all but one of those with one key and one position that nothing orders: a ``"duplicate_position"`` is the same record
    again; an ``"ambiguous_position"`` is another one, dropped because the one that is kept has the later timestamp, then the larger
    ``tie_break_by``, then the larger canonical encoding (fields by name). Give a finer ``sequence_by`` where these are counted.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to keys whose coder is not
    deterministic, to Arrow batches whose columns are not known, and for columns that they do not have; and in the run for a field that is missing, for an
    Arrow batch without a column that an option names, for a name in ``except_columns`` that no record has, for a position that is not an int of 64 bits, and for several records of one key none of which has a
    time or a sequence.

    >>> import apache_beam as beam
    >>> from beam_joins import TableToChanges
    >>> changelog = [{"id": 1, "lsn": 8, "name": "Bob"}, {"id": 1, "lsn": 7, "name": "Ann"}]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(changelog)
    ...         | TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", except_columns=["id", "lsn"])
    ...         | TableToChanges()
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
        apply_as_truncates: Truncating | None = None,
        except_columns: Sequence[str] = (),
        emit: Emit = "updates",
        schema: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(except_columns, str) or not all(isinstance(name, str) for name in except_columns):
            raise ValueError(f"except_columns={except_columns!r}: give a list of column names")
        self._key = key
        given = {"key": key, "timestamp_by": timestamp_by, "sequence_by": sequence_by, "tie_break_by": tie_break_by}
        self._read = options_of({**given, "apply_as_deletes": apply_as_deletes, "apply_as_truncates": apply_as_truncates})
        self._left_out = frozenset(except_columns)
        self._emit: Emit = choice("emit", emit, Emit)
        self._schema = None if schema is None else declared_schema(schema)

    def build(self, pvalue: PCollection[Any]) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The table and the dropped records."""
        require_global("TableFromChangelog", pvalue)
        if self._emit == "latest":
            require_bounded("TableFromChangelog(emit='latest')", "leave emit= out", pvalue)
        if self._emit == "latest" and not has_one_turn(pvalue):
            raise ValueError(
                "emit='latest' needs the whole changelog at once: leave it out in a run that goes on, and apply LatestTable"
            )
        batches, functions = is_arrow(pvalue), self.handling.functions
        schema = self._schema_of_batches(pvalue) if batches else None
        declared = schema or self._schema
        there = columns_of_type(pvalue.element_type) if declared is None else declared.names
        if there is not None and self._key is not None:
            self._require_there(there, batches)
        key_type, value_type = self._types(pvalue.element_type)
        options = {name: option.of(functions) for name, option in self._read.items()}
        coder = key_coder(key_type, "the key of TableFromChangelog")
        rows = ChangelogRows(ROWS, options, self._left_out, None if batches else self._schema, coder)
        with called_with_no_rows():
            key, value = (column.type for column in rows.columns(no_records(schema)).columns[:2])
        given = [(name, option.spec) for name, option in self._read.items()]
        outputs = (ROWS, *self.dropping, *self.handling.tags)
        size = arrow_bytes(pvalue)
        routed = pvalue | "Route" >> RecordRoute(rows, functions, schema=schema, options=given, to=outputs, size=size)
        self.handling.collect(routed)
        order: Order = "sequence" if "sequence_by" in self._read else "time"
        key, value = key_type if is_opaque(key) else key, value_type if is_opaque(value) else value
        known_type = TableType(key, value, order, whole=True, final=self._emit == "latest", bytes=size)
        replayed = (routed[ROWS],) | "Replay" >> Replay(
            upserts(self._emit, known_type, partial(_require_order, known_type)),
            main_type=ChangeBatch,
            to=(MAIN, *self.dropping),
            by_time=order == "time",
            check=columns_are_there("except_columns", ROWS, self._left_out) if self._left_out and not batches else None,
        )
        return as_table(replayed[MAIN], known_type), self.all_dropped(routed, replayed)

    def _schema_of_batches(self, pvalue: PCollection[Any]) -> pa.Schema:
        schema = self._schema or arrow_schema(pvalue)
        if schema is None:
            raise ValueError(
                "the columns of this changelog are not known when the pipeline is built: read it with ReadParquet, or give schema=, a"
                " pyarrow.Schema of its columns"
            )
        if self._key is None:
            raise ValueError("a changelog in columns needs key=: the name of a column, a list of names, or a function")
        if not self._read.keys() & {"timestamp_by", "sequence_by"}:
            raise ValueError(
                "a changelog in columns needs timestamp_by= or sequence_by=, as the rows of a batch have no time of their own"
            )
        return schema

    def _require_there(self, columns: Sequence[str], batches: bool) -> None:
        for option, spec, _ in self._read.values():
            if isinstance(spec, vectorized) and not batches:
                raise ValueError(f"{option} is vectorized, and this changelog is not of Arrow tables: give a function of one record")
            for name in names_in(spec):
                if name not in columns:
                    raise ValueError(f"{option}={name!r}: there is no such column; there are {', '.join(columns)}")
        require_columns_there("except_columns", self._left_out, columns)

    def _types(self, element_type: Any) -> tuple[Any, Any]:
        if self._key is None:
            return pair_types(element_type)
        key_type = annotated(element_type, self._key) if isinstance(self._key, str) else annotated(self._key, "return")
        return key_type, Any if self._left_out else known(element_type)


def _require_order(known_type: TableType, lost: pa.Table) -> None:
    if known_type.order != "time":
        return
    unordered = lost.filter(pc.less_equal(lost["position"], MIN_TIMESTAMP.micros))
    for (key, _), _ in records_of(unordered.slice(0, 1), known_type):
        raise ValueError(
            f"several records have the key {key!r} and none has an event time to order them by: give sequence_by= or timestamp_by=,"
            " or timestamps to the elements"
        )
