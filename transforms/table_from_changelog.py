"""TableFromChangelog: the table that a raw changelog stands for, with the vocabulary of Spark's AUTO CDC."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from beam_joins.change import Change, Dropped
from beam_joins.record import Record
from beam_joins.table import Emit, UpsertTable
from coders.key import encode_key, key_coder, value_coder
from transforms.element_types import annotated, known, pair_types
from transforms.fields import Field, getter, key_getter, micros, position
from transforms.options import function
from transforms.outputs import Outputs, WithOutputs
from transforms.replay import DROPPED, MAIN, Operator, Outlet, Replay, Route, Rows, at, partition_count
from transforms.table_type import Order, TableType, as_table, require_bounded


class TableFromChangelog(WithOutputs):
    """The table that a raw changelog stands for: ``PCollection[Change[K, V]]``, old values filled in.

    The changelog is a ``PCollection[tuple[K, V | None]]``, where ``None`` is a tombstone; or a collection of any elements, with ``key=``.
    The functions among the options get the element as it is.

    * ``key``: a field name, a list of field names (their values make a tuple), or a function. The element is then the value.
    * ``timestamp_by``: a field name or function that gives the event time: microseconds since the epoch, a datetime with a time zone, or
      a Beam ``Timestamp``. By default the element's timestamp.
    * ``sequence_by``: a field name or function that gives the position, an int of 64 bits (an LSN, an offset, a commit number). By
      default the event time is the position.
    * ``apply_as_deletes``: a function that is true for an element that deletes its row.
    * ``except_columns``: names to leave out of the value (elements that are mappings).
    * ``emit``: ``"updates"``, ``"changes"`` (only those that change the value) or ``"records"`` (tombstones of absent rows too); see
      :data:`beam_joins.table.Emit`.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`transforms.replay`.

    Dropped, counted, and an output of :meth:`with_outputs`, are records with a ``"null_key"``, a ``"null_sequence"`` or a
    ``"null_timestamp"``, and all but one of those with one key and one position (``"duplicate_position"``: the later timestamp wins, then
    the larger encoded value).

    Raises ``ValueError`` at construction for a wrong option, when applied to windowed or unbounded input or to keys whose coder is not
    deterministic, and in the run for a field that is not there, for a position that is not an int of 64 bits, and for several records of one
    key none of which has a time or a sequence.

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
        sequence_by: Field | None = None,
        apply_as_deletes: Callable[[Any], bool] | None = None,
        except_columns: Sequence[str] = (),
        emit: Emit = "updates",
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        UpsertTable(emit)
        if apply_as_deletes is not None:
            function("apply_as_deletes", apply_as_deletes, "that is true for an element that deletes its row")
        if isinstance(except_columns, str) or not all(isinstance(name, str) for name in except_columns):
            raise ValueError(f"except_columns={except_columns!r}: give a list of column names")
        self._key_spec = key
        self._key = None if key is None else key_getter(key)
        self._timestamp = None if timestamp_by is None else getter("timestamp_by", timestamp_by)
        self._sequence = None if sequence_by is None else getter("sequence_by", sequence_by)
        self._deletes = apply_as_deletes
        self._except = frozenset(except_columns)
        self._emit = emit
        self._partitions = partition_count(partitions)

    def build(self, pvalue: PCollection[Any]) -> Outputs:
        """The table and the dropped records."""
        require_bounded("TableFromChangelog", pvalue)
        key_type, value_type = self._types(pvalue.element_type)
        keys, values = key_coder(key_type, "the key of TableFromChangelog"), value_coder(value_type)
        routed = pvalue | "Route" >> Route(
            self._rows(keys, values), to=("rows",), partitions=self._partitions, timed=self._timestamp is None
        )
        replayed = (routed["rows"],) | "Replay" >> Replay(
            _Upserts(self._emit, keys, values), partitions=self._partitions, main_type=Change
        )
        order: Order = "time" if self._sequence is None else "sequence"
        dropped = (routed[DROPPED], replayed[DROPPED]) | "Dropped" >> beam.Flatten()
        return Outputs(as_table(replayed[MAIN], TableType(key_type, value_type, order)), dropped)

    def _rows(self, keys: Coder, values: Coder) -> Rows:
        key_of, timestamp_of, sequence_of = self._key, self._timestamp, self._sequence
        deletes, left_out = self._deletes, self._except

        def rows(element: Any, timestamp: int, outlet: Outlet) -> None:
            key, value = (key_of(element), element) if key_of else _pair(element)
            if timestamp_of:
                time = timestamp_of(element)
                if time is None:
                    return outlet.drop("null_timestamp", element, timestamp)
                timestamp = micros(time)
            if key is None:
                return outlet.drop("null_key", element, timestamp)
            at = timestamp
            if sequence_of:
                sequence = sequence_of(element)
                if sequence is None:
                    return outlet.drop("null_sequence", element, timestamp)
                at = position(sequence)
            if deletes and deletes(element):
                value = None
            elif left_out and value is not None:
                value = _without(value, left_out)
            encoded_key = encode_key(keys, key, "the key")
            encoded = None if value is None else values.encode(value)
            return outlet.send("rows", encoded_key, Record(encoded_key, encoded, timestamp, at))

        return rows

    def _types(self, element_type: Any) -> tuple[Any, Any]:
        if self._key is None:
            return pair_types(element_type)
        value_type = Any if self._except else known(element_type)
        if isinstance(self._key_spec, str):
            return annotated(element_type, self._key_spec), value_type
        return annotated(self._key_spec, "return"), value_type


class _Upserts(Operator):
    def __init__(self, emit: Emit, keys: Coder, values: Coder) -> None:
        self._emit: Emit = emit
        self._keys = keys
        self._values = values
        self._decoded: tuple[bytes | None, Any] = (None, None)

    def core(self) -> UpsertTable:
        return UpsertTable(self._emit)

    def write(self, output: Change[bytes, bytes] | Dropped, outlet: Outlet) -> Any:
        if isinstance(output, Dropped):
            reason, record, timestamp = output
            if record.position <= MIN_TIMESTAMP.micros:
                raise ValueError(
                    f"several records have the key {self._keys.decode(record.key)!r} and none has an event time to order them by: give"
                    " sequence_by= or timestamp_by=, or timestamps to the elements"
                )
            return outlet.drop(reason, (self._keys.decode(record.key), self._decode(record.value)), timestamp)
        key, old, new, timestamp, position = output
        return at(Change(self._keys.decode(key), self._decode(old), self._decode(new), timestamp, position), timestamp)

    def _decode(self, encoded: bytes | None) -> Any:
        # The old value of a change is the new value of the one before it: decode it once.
        if encoded is not self._decoded[0]:
            self._decoded = (encoded, None if encoded is None else self._values.decode(encoded))
        return self._decoded[1]


def _pair(element: Any) -> tuple[Any, Any]:
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"TableFromChangelog takes (key, value) pairs, or any elements with key=: it got {element!r} without key=")
    return element


def _without(value: Any, left_out: frozenset[str]) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"except_columns needs mappings, not {type(value).__name__}: leave columns out with MapTable")
    return {name: column for name, column in value.items() if name not in left_out}
