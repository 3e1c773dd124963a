"""A raw changelog on its way to become rows in columns: Arrow batches; dicts, objects or pairs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.coders.key import KeyCoder
from beam_joins.columns.positions import Values, ties_of
from beam_joins.functions.fields import delete_getter, field, getter, mark_getter, names_in
from beam_joins.functions.typed_rows import column_writer
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import comparable
from beam_joins.keys.opaque import is_opaque
from beam_joins.tables.change_flags import deleted_of, lives_of, marked_of, unchanged_of
from beam_joins.tables.key_handover import ARRIVES
from beam_joins.tables.unchanged import UNCHANGED
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.log_spans import note_spans
from beam_joins.transforms.engine.blocks.observed_kinds import note_columns, note_logs
from beam_joins.transforms.engine.stages.changelog_operator import TRUNCATES
from beam_joins.transforms.engine.stages.routed_records import Option, RoutedRecords, pairs
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.values.exact_values import ValuePlace, exact_column, fields_of

_MARKS = {"apply_as_truncates": "empties the table", "apply_as_inserts": "comes to its key"}
_NO_PAIR = "TableFromChangelog takes (key, value) pairs, or any elements with key=: it got {} without key="


def options_of(specs: Mapping[str, Any]) -> dict[str, Option]:
    """The options of a changelog that are given; raises ``ValueError`` for a wrong one."""
    options = {name: spec for name, spec in specs.items() if spec is not None}
    called = {
        name: delete_getter(spec)
        if name == "apply_as_deletes"
        else mark_getter(name, spec, _MARKS[name])
        if name in _MARKS
        else getter(name, spec, one=name in ("timestamp_by", "unchanged_by"))
        for name, spec in options.items()
    }
    return {name: Option(name, spec, called[name]) for name, spec in options.items()}


class RawChangelog:
    """The rows of records for the replay named ``to``: ``key``, ``value``, ``timestamp``, ``position``, and
    ``within``, ``tie``, ``unchanged`` and ``arrives`` where they are said.

    ``options`` are those of :class:`beam_joins.transforms.table_from_changelog.TableFromChangelog` that are
    given. Of elements the columns are opaque, or of the types that a ``schema`` declares.
    """

    def __init__(
        self, to: str, options: Mapping[str, Option], left_out: frozenset[str], schema: pa.Schema | None, keys: KeyCoder
    ) -> None:
        self._to = to
        self._options = options
        self._left_out = left_out
        self._coder = keys
        self._key_type: pa.DataType | None = None
        self._names: list[str] | None = None
        self._declared: frozenset[str] = frozenset()
        if schema is not None:
            spec = options["key"].spec if "key" in options else ()
            if types := [schema.field(name).type for name in names_in(spec)]:
                self._key_type = types[0] if isinstance(spec, str) else pa.struct(zip(spec, types, strict=True))
            self._declared = frozenset(schema.names)
            self._names = [name for name in schema.names if name not in left_out]
            schema = pa.schema([schema.field(name) for name in self._names])
        self._write = column_writer("a record", schema)

    def __call__(self, records: RoutedRecords) -> None:
        """Send the rows, and to all partitions the truncates."""
        truncating = self._options.get("apply_as_truncates")
        if truncating is not None and (apart := marked_of(truncating.name, truncating.spec, records.column(truncating))).any():
            records, truncates = records.split(apart)
            if len(places := self._places(truncates)):
                records.writer.send_to_all(self._to, places, TRUNCATES)
        rows = self.columns(records)
        records.writer.send(self._to, hashes(rows.column("key")), rows)

    def columns(self, records: RoutedRecords) -> pa.RecordBatch:
        """The columns of the records that can be used."""
        options = self._options
        if (log := options.get("one_log_by")) is not None:
            note_logs(records.writer.noted(self._to), records.column(log))
        of_value: Any = records.elements
        if "key" in options:
            key = records.column(options["key"])
        else:
            key, of_value = pairs(records.elements, _NO_PAIR)
        records.timed(options.get("timestamp_by"), ordering="sequence_by" not in options)
        records.drop("null_key", key)
        position, within = records.placed(options.get("sequence_by"))
        if log is not None:
            note_spans(records.writer.noted(self._to), records.column(log), position, records.times)
        deletes, tie = options.get("apply_as_deletes"), options.get("tie_break_by")
        deleted = None if deletes is None else deleted_of(deletes.spec, records.column(deletes))
        ties = None if tie is None else ties_of(records.column(tie))
        leaving = options.get("unchanged_by")
        unchanged = None if leaving is None else unchanged_of(leaving.name, records.column(leaving))
        inserting = options.get("apply_as_inserts")
        arrives = None if inserting is None else lives_of(inserting.name, inserting.spec, records.column(inserting))
        if self._names is not None and records.functions.handles_any:
            self._refuse(records, key, of_value, pa.nulls(len(records.elements), pa.bool_()) if deleted is None else deleted)
        columns = {
            "key": self._keys(records.kept(key)),
            "value": self._values(records.kept(of_value), None if deleted is None else records.kept(deleted), records.writer),
            "timestamp": records.kept(pa.array(records.times)),
            "position": records.kept(position),
        }
        columns |= {
            name: records.kept(order)
            for name, order in (("within", within), ("tie", ties), (UNCHANGED, unchanged), (ARRIVES, arrives))
            if order is not None
        }
        return pa.record_batch(list(columns.values()), names=list(columns))

    def _places(self, truncates: RoutedRecords) -> pa.RecordBatch:
        truncates.timed(self._options.get("timestamp_by"), ordering="sequence_by" not in self._options)
        position, within = truncates.placed(self._options.get("sequence_by"))
        columns = {"timestamp": truncates.kept(pa.array(truncates.times)), "position": truncates.kept(position)}
        if within is not None:
            columns["within"] = truncates.kept(within)
        # all partitions meet it: it has a position for them as what has a key has
        return pa.record_batch([pa.array(np.ones(len(columns["position"]), np.bool_)), *columns.values()], names=["key", *columns])

    def _keys(self, keys: Values) -> pa.Array:
        if isinstance(keys, pa.Array):
            return comparable(keys, "the key")
        if self._key_type is None:
            return self._coder.column(keys, "the key")
        if pa.types.is_struct(self._key_type):
            keys = [dict(zip((part.name for part in self._key_type), key, strict=True)) for key in keys]
        spec = self._options["key"].spec
        return comparable(
            exact_column(keys, self._key_type, ValuePlace("the key of a record", spec if isinstance(spec, str) else "")), "the key"
        )

    def _values(self, values: Values, deleted: pa.Array | None, writer: BlockWriter) -> pa.Array:
        if isinstance(values, pa.Array):
            return _without(values, self._left_out, deleted)
        if self._left_out:
            for value in values:
                note_columns(writer.noted(self._to), value, self._left_out)
        if deleted is not None:
            values = [None if is_deleted else value for value, is_deleted in zip(values, deleted.to_pylist(), strict=True)]
        if self._names is not None or self._left_out:
            values = [None if value is None else self._value(value) for value in values]
        return self._write(values)

    def _value(self, value: Any) -> dict[Any, Any]:
        if self._names is not None:
            return self._columns(value, self._names)
        if not isinstance(value, Mapping):
            raise ValueError(f"except_columns needs mappings, not {type(value).__name__}: leave columns out with MapTable")
        return {name: column for name, column in value.items() if name not in self._left_out}

    def _columns(self, value: Any, names: list[str]) -> dict[str, Any]:
        fields = fields_of(value) or {}
        if not self._declared.issuperset(fields):
            name = next(name for name in fields if name not in self._declared)
            raise ValueError(f"a record gave the field {name!r}, and schema= has {', '.join(sorted(self._declared))}")
        return {name: field(value, name) for name in names}

    def _refuse(self, records: RoutedRecords, key: Values, values: Values, deletes: pa.Array) -> None:
        """Put the records that are not of the declared types into ``bad``."""

        def fits(key: Any, value: Any, deleted: Any) -> None:
            self._keys([key])
            self._values([value], pa.array([deleted], pa.bool_()), BlockWriter(1))

        try:
            self._keys(records.kept(key))
            self._values(records.kept(values), records.kept(deletes), BlockWriter(1))
        except ValueError:
            records.each(records.functions.function("schema=", None, fits), key, values, deletes.to_pylist())


def no_records(schema: pa.Schema | None) -> RoutedRecords:
    """No records, elements or rows of a batch; columns made of them have the right types."""
    rows: Any = [] if schema is None else pa.nulls(0, pa.struct(schema))
    return RoutedRecords(rows, np.zeros(0, np.int64), StageFunctions(""), BlockWriter(1))


def require_columns_there(option: str, names: Iterable[str], columns: Sequence[str]) -> None:
    """Raise ``ValueError`` for a column that does not exist."""
    if missing := sorted(set(names).difference(columns)):
        raise ValueError(f"{option} names {', '.join(missing)}, which no record has; there are {', '.join(columns)}")


def _without(records: pa.Array, left_out: frozenset[str], deleted: pa.Array | None) -> pa.Array:
    """The values that records hold in the columns that are not left out, or in the one of Python objects; null where one
    is deleted.

    No column is copied.
    """
    kept = [field for field in records.type if field.name not in left_out]
    if not kept:
        raise ValueError("except_columns leaves no column for the value")
    if len(kept) == 1 and is_opaque(kept[0].type):
        stored = records.field(kept[0].name).storage
        stored = stored if deleted is None else pc.if_else(deleted.fill_null(True), pa.scalar(None, stored.type), stored)
        return pa.ExtensionArray.from_storage(kept[0].type, stored)
    if deleted is None and len(kept) == records.type.num_fields:
        return records
    mask = None if deleted is None else deleted.fill_null(True)
    return pa.StructArray.from_arrays([records.field(field.name) for field in kept], fields=kept, mask=mask)
