"""TableFromChangelog: turns a raw changelog into a table, with the options of Spark's AUTO CDC."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import key_coder
from beam_joins.elements.content import Emit
from beam_joins.elements.iso_times import NO_TIME
from beam_joins.errors import InputError
from beam_joins.function_failed import called_with_no_rows
from beam_joins.functions.fields import Deleting, Field, Fields, Marking, names_in
from beam_joins.functions.marked_functions import vectorized
from beam_joins.keys.opaque import is_opaque
from beam_joins.tables.batch import ChangeBatch
from beam_joins.tables.unchanged import UNCHANGED, Complete
from beam_joins.transforms.engine.blocks.block_writer import MAIN
from beam_joins.transforms.engine.blocks.observed_kinds import columns_are_there, of_one_log, together
from beam_joins.transforms.engine.construction.arrow_input import arrow_bytes, arrow_schema, declared_schema, is_arrow
from beam_joins.transforms.engine.construction.beam_schemas import columns_of_rows
from beam_joins.transforms.engine.construction.element_types import annotated, columns_of_type, pair_types, type_or_any
from beam_joins.transforms.engine.construction.input_checks import require_bounded, require_global
from beam_joins.transforms.engine.construction.option_checks import choice, columns
from beam_joins.transforms.engine.construction.pipeline_changes import OF_RECORDS
from beam_joins.transforms.engine.construction.table_type import Order, Physical, TableType, as_table, key_names_of
from beam_joins.transforms.engine.stages.changelog_operator import NO_EARLIER_ROW, ROWS, TRUNCATES, upserts
from beam_joins.transforms.engine.stages.raw_changelog import RawChangelog, no_records, options_of, require_columns_there
from beam_joins.transforms.engine.stages.replay import Replay
from beam_joins.transforms.engine.stages.replay_options import has_one_turn, union_with_stored
from beam_joins.transforms.engine.stages.routed_records import RecordRoute
from beam_joins.transforms.engine.stages.table_rows import records_of
from beam_joins.transforms.engine.transform_outputs import MakesTable


class TableFromChangelog(MakesTable[PCollection[Any]]):
    """Turns a raw changelog into a table: orders the records of each key, drops stale and repeated records,
    and fills in old values. The result is a ``PCollection[ChangeBatch]``; :class:`~beam_joins.TableToChanges`
    splits it into single changes.

    The changelog is a ``PCollection[tuple[K, V | None]]``, where ``None`` is a tombstone, or with ``key=`` a
    collection of any elements. Functions among the options get the element itself. Keys and values are opaque
    Python objects unless ``schema``, or the Beam schema of the elements, declares columns.

    A changelog in Arrow columns is a ``PCollection[pyarrow.Table]`` or ``PCollection[pyarrow.RecordBatch]``.
    Its values are its rows, which become Python objects only where a function of one record needs them. It
    needs ``key`` and one of ``timestamp_by`` and ``sequence_by``; the functions may be
    :class:`~beam_joins.vectorized`. The columns must be known when the pipeline is built: from the reader,
    from the batches of a ``beam.Create``, or from ``schema``.

    * ``key``: a field name, a list of field names (the key is the tuple of their values, or null if one is
      null), or a function. The value is then the element. Keys that are equal in Python are equal here.
    * ``timestamp_by``: a field name or function for the event time: microseconds since the epoch, a datetime
      with a time zone, its text in ISO 8601, or a Beam ``Timestamp``. By default the element's timestamp, cut
      to the millisecond, as Beam carries it between stages.
    * ``sequence_by``: a field name or function for the position, an int of 64 bits (an LSN, an offset, a
      commit number). By default the event time is the position. A list of names, or a function that returns a
      tuple, orders by several numbers as AUTO CDC's struct does: in ``["commit_lsn", "lsn"]`` the first is
      the position, so that a transaction is visible whole, and the others decide which change of a row within
      it is the last.
    * ``one_log_by``: the name of a field that identifies the log of ``sequence_by``, such as a server's
      identifier; null if unknown. Numbers of two logs cannot be compared: the run raises ``ValueError`` for a
      changelog with more than one.
    * ``tie_break_by``: a last resort, in the same form, such as the offset in a file. It breaks ties of one
      key in sequence and event time; all but the last record are still dropped as ambiguous.
    * ``apply_as_deletes``: a function, or the name of a field, that is true for an element that deletes its
      row; or a field and its values for deletes, ``{"op": ["d", "t"]}``, in upper or lower case, with
      ``"null"`` for ``None``. All other values must be words for inserts and updates
      (:data:`beam_joins.options.operations.UPSERTS`); the run raises ``ValueError`` for any other word, naming value
      and field.
    * ``apply_as_inserts``: a function that is true for an element that arrives at its key, an insert or an
      update of the key; or a field and its values for these, ``{"op": ["c"]}``. A later delete at the same
      position then deletes the previous row of the key, if it existed: with a key that PostgreSQL checks at
      the end of the transaction (``DEFERRABLE``), ``UPDATE seats SET id = id + 1`` moves each row to a key
      that another row is about to leave.
    * ``apply_as_truncates``: a function that is true for an element that empties the table, or a field and
      its values for truncates, ``{"op": ["t"]}``. A truncate needs a time and a sequence, but no key. It
      deletes all earlier rows of the table, at its time and position.
    * ``unchanged_by``: a field name or function for the names of the columns that a record omits because they
      did not change (PostgreSQL's TOAST), a list or null. The row takes them from the previous row by
      position, whatever the order of arrival. Values must be mappings or columns.
    * ``completed_by``: completes values of other kinds: a function of the earlier value, the later value, and
      the names that the later value omits.
    * ``without_earlier``: ``"fail"`` (default) or ``"drop"``, for records that omit columns when no earlier
      row of the key has them.
    * ``except_columns``: names to remove from the value (elements that are mappings). A name that no record
      has fails the run, or the construction if the columns are known.
    * ``emit``: ``"updates"``, ``"changes"`` (only those that change the value), ``"records"`` (tombstones of
      absent rows too) or ``"latest"`` (only the last change of each final row); see
      :data:`beam_joins.elements.content.Emit`.
    * ``schema``: the columns of the records (of the values of pairs), a ``pyarrow.Schema``, a ``NamedTuple``
      class or a dataclass. Values are then columns, and so are keys that are fields. A value that its column
      cannot hold exactly, and a field that is not in the schema, raise ``ValueError``. By default, ``"declared"``,
      the Beam schema of elements that have one, if all its types are types of Arrow: of ``beam.Row``, of
      ``NamedTuple`` classes in ``with_output_types``, of classes whose coder is ``RowCoder``. ``None``: values are
      Python objects.

    Records with a ``"null_key"``, a ``"null_sequence"`` or a ``"null_timestamp"`` are dropped: counted, and
    an output of :meth:`with_outputs`. So are all but one of the records with equal key and sequence: a
    ``"duplicate_position"`` is the same record again; an ``"ambiguous_position"`` is a different record,
    which lost to a record with the later timestamp, then the larger ``tie_break_by``, then the larger
    canonical encoding (fields by name). Give a finer ``sequence_by`` if ambiguous records are counted.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to keys whose
    coder is not deterministic, to Arrow batches of unknown columns, and for columns that they do not have;
    and in the run for a missing field, for an Arrow batch without a column that an option names, for a name
    in ``except_columns`` that no record has, for a position that is not an int of 64 bits, and for several
    records of one key without a time, a sequence and ``tie_break_by``.

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

    A column that the second record leaves out:

    >>> log = [{"id": 1, "lsn": 7, "bio": "long", "left": None}, {"id": 1, "lsn": 8, "name": "Ann", "left": ["bio"]}]
    >>> with beam.Pipeline() as pipeline:
    ...     table = pipeline | beam.Create(log) | TableFromChangelog(
    ...         key="id", sequence_by="lsn", timestamp_by="lsn", unchanged_by="left", except_columns=["id", "lsn", "left"])
    ...     _ = table | TableToChanges() | beam.Map(lambda change: print(change.new))
    {'bio': 'long'}
    {'bio': 'long', 'name': 'Ann'}
    """

    rules = OF_RECORDS._replace(options={"emit": "kept", "schema": "kept"})
    table_stage = "Replay"

    def __init__(
        self,
        *,
        key: Field | Sequence[str] | None = None,
        timestamp_by: Field | None = None,
        sequence_by: Fields | None = None,
        one_log_by: str | None = None,
        tie_break_by: Fields | None = None,
        apply_as_deletes: Deleting | None = None,
        apply_as_inserts: Marking | None = None,
        apply_as_truncates: Marking | None = None,
        unchanged_by: Field | None = None,
        completed_by: Complete | None = None,
        without_earlier: Literal["fail", "drop"] = "fail",
        except_columns: Sequence[str] = (),
        emit: Emit = "updates",
        schema: Any = "declared",
    ) -> None:
        super().__init__()
        if isinstance(except_columns, str):
            raise ValueError(f"except_columns={except_columns!r}: give a list of column names")
        self._key = key
        specs = {"key": key, "timestamp_by": timestamp_by, "sequence_by": sequence_by, "tie_break_by": tie_break_by}
        specs["unchanged_by"] = unchanged_by
        if not (completed_by is None or callable(completed_by)):
            raise ValueError(
                f"completed_by={completed_by!r}: give a function of the earlier value, the later one, and the names that it leaves out"
            )
        if completed_by is not None and unchanged_by is None:
            raise ValueError("completed_by= needs unchanged_by=, which says what records leave out")
        self._completed_by = completed_by
        self._drops_partial = choice("without_earlier", without_earlier, Literal["fail", "drop"]) == "drop"
        marks = {"apply_as_inserts": apply_as_inserts, "apply_as_truncates": apply_as_truncates}
        self._read = options_of({**specs, "apply_as_deletes": apply_as_deletes, **marks})
        if one_log_by is not None and not isinstance(one_log_by, str):
            raise ValueError(f"one_log_by={one_log_by!r}: give the name of a field")
        self._read |= options_of({"one_log_by": one_log_by})
        self._left_out = frozenset(columns("except_columns", except_columns, none=True))
        self._emit: Emit = choice("emit", emit, Emit)
        self._schema = schema if schema is None or _is_default(schema) else declared_schema(schema)

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
        declared = self._declared(pvalue, batches)
        schema = declared if batches else None
        names = columns_of_type(pvalue.element_type) if declared is None else declared.names
        if names is not None and self._key is not None:
            self._require_there(names, batches)
        key_type, value_type = self._types(pvalue.element_type)
        options = {name: option.of(functions) for name, option in self._read.items()}
        coder = key_coder(key_type, "the key of TableFromChangelog")
        rows = RawChangelog(ROWS, options, self._left_out, None if batches else declared, coder)
        with called_with_no_rows():
            key, value = (column.type for column in rows.columns(no_records(schema)).columns[:2])
        specs = [(name, option.spec) for name, option in self._read.items()]
        outputs = (ROWS, *self.dropping, *self.handling.tags)
        size = arrow_bytes(pvalue)
        routed = pvalue | "Route" >> RecordRoute(rows, functions, schema=schema, options=specs, to=outputs, size=size)
        self.handling.collect(routed)
        order: Order = "sequence" if "sequence_by" in self._read else "time"
        key, value = key_type if is_opaque(key) else key, value_type if is_opaque(value) else value
        if isinstance(value, pa.DataType):
            value = union_with_stored(pvalue, "Replay", ROWS, value)
        if isinstance(key, pa.DataType) and pa.types.is_decimal(key):  # others are compared in one type
            key = union_with_stored(pvalue, "Replay", ROWS, key, "key")
        known_type = TableType(key, value, order, key_names=key_names_of(self._key))
        needs_order = order == "time" and "tie_break_by" not in self._read
        replayed = (routed[ROWS],) | "Replay" >> Replay(
            upserts(self._emit, known_type, partial(_checked, known_type, needs_order, self._drops_partial), self._completed_by),
            main_type=ChangeBatch,
            to=(MAIN, *self.dropping),
            to_all=(TRUNCATES,),
            by_time=order == "time",
            stored={ROWS: known_type.columns},
            check=together(
                columns_are_there("except_columns", ROWS, self._left_out) if self._left_out and not batches else None,
                of_one_log(ROWS) if "one_log_by" in self._read else None,
            ),
        )
        return as_table(replayed[MAIN], known_type, Physical("final" if self._emit == "latest" else "whole", size)), self.all_dropped(
            routed, replayed
        )

    def _declared(self, pvalue: PCollection[Any], batches: bool) -> pa.Schema | None:
        """The columns of the records; None for Python objects."""
        if batches:
            return self._schema_of_batches(pvalue)
        if not _is_default(self._schema):
            return self._schema
        try:
            return None if self._key is None else columns_of_rows(pvalue.element_type)
        except ValueError:  # a field has a type that no column has
            return None

    def _schema_of_batches(self, pvalue: PCollection[Any]) -> pa.Schema:
        schema = arrow_schema(pvalue) if self._schema is None or _is_default(self._schema) else self._schema
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
        return key_type, Any if self._left_out else type_or_any(element_type)


def _is_default(schema: Any) -> bool:
    return isinstance(schema, str) and schema == "declared"


def _checked(known_type: TableType, needs_order: bool, drops_partial: bool, lost: pa.Table) -> None:
    if needs_order:
        _require_order(known_type, lost)
    if not drops_partial:
        _require_earlier(known_type, lost)


def _require_earlier(known_type: TableType, lost: pa.Table) -> None:
    lacking = lost.filter(pc.equal(lost["reason"], NO_EARLIER_ROW)).slice(0, 1)
    for (key, _), _ in records_of(lacking, known_type):
        raise InputError(
            f"the record with the key {key!r} at position {lacking['position'][0]} leaves out "
            f"{', '.join(lacking[UNCHANGED][0].as_py())}, which did not change, and no"
            " earlier row of this key has it: begin with a snapshot of the table, have PostgreSQL log whole rows "
            "(ALTER TABLE ... REPLICA IDENTITY FULL), or drop"
            " such records"
        )


def _require_order(known_type: TableType, lost: pa.Table) -> None:
    unordered = lost.filter(pc.less_equal(lost["position"], NO_TIME))
    for (key, _), _ in records_of(unordered.slice(0, 1), known_type):
        raise ValueError(
            f"several records have the key {key!r} and none has an event time to order them by: give sequence_by= or timestamp_by=,"
            " or timestamps to the elements"
        )
