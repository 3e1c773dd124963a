"""StreamTableJoin: joins each record of a stream with the table row of the same key, as of the record's
position (KIP-77).
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from beam_joins.elements.windowed import Window, Windowed
from beam_joins.functions.fields import Fields
from beam_joins.functions.joiner import Joiner
from beam_joins.functions.typed_rows import Schema
from beam_joins.options.join_types import LookupHow
from beam_joins.transforms.engine.construction.input_checks import common_key_type, perhaps_windowed
from beam_joins.transforms.engine.construction.option_checks import function
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.stream_lookup import StreamLookupJoin
from beam_joins.transforms.engine.streams import OfRow


class StreamTableJoin(StreamLookupJoin):
    """Joins each record of a stream with the table row of the same key, as the row was at the record's
    position.

    ``(PCollection[tuple[K, V]], Table[K, W]) -> PCollection[tuple[K, R]]``. Only records of the stream cause
    results, at most one each: ``(key, joiner(value, row))`` at the record's event time. The row is the
    table's after all changes up to and including the record's position; later changes of the table do not
    change the result. The stream may be of Arrow batches, whose rows are its values; the result is then
    record batches with the columns ``key``, ``value`` and ``timestamp``.

    * ``joiner``: a function of the stream's value and the table's, or ``with_key(fn)`` with ``fn(key, value,
      row)``; if it returns ``None`` the result is ``(key, None)``, as in Kafka Streams: a value of a stream
      may be ``None``. Of a stream of Arrow batches also columns, ``{"count": "stream.count", "price":
      "table.price"}``.
    * ``how``: ``"inner"``; ``"left"`` also emits records without a row, ``joiner(value, None)``.
    * ``key``: only for a stream of Arrow batches, ``PCollection[pyarrow.Table]`` or
      ``PCollection[pyarrow.RecordBatch]``: the column of the key, or several.
    * ``timestamp_by``: only for a stream of Arrow batches: the column of the event time, microseconds or an
      Arrow timestamp with a time zone.
    * ``sequence_by``: a field of the values, or a function of key and value: the position of a record, for a
      table with ``sequence_by`` from the same sequence. Of several numbers, as in
      :class:`~beam_joins.TableFromChangelog`, the first is the position. By default the position is the event
      time; that of a pair is cut to the millisecond, as Beam carries it.
    * ``window_of``: for windowed tables only, a function of key and value that returns the window to look up
      under the record's key. ``None`` counts as a null key.
    * ``stream_schema``: the ``pyarrow.Schema`` of a stream of Arrow batches, if its reader does not know it.
    * ``schema``: of Arrow batches with a joiner of one record, the ``pyarrow.Schema`` of its results.

    Records with a ``"null_value"``, a ``"null_sequence"``, of Arrow batches a ``"null_timestamp"`` or, in an
    inner join, a ``"null_key"`` are dropped: counted, and an output of :meth:`with_outputs` (``stream``,
    ``dropped``). A left join emits records with a null key as ``(None, joiner(value, None))``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed input, to a stream and
    a table with different orders (time and sequence), or to keys of different types or without a
    deterministic coder; and in the run for elements that are not pairs and for two changes of one row at one
    position.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     prices = pipeline | "prices" >> beam.Create(
    ...         [Change("apple", None, 3, timestamp=0, position=10), Change("apple", 3, 4, timestamp=0, position=20)]
    ...     )
    ...     sales = pipeline | "sales" >> beam.Create([("apple", {"lsn": 15, "count": 2})])
    ...     _ = (sales, prices) | StreamTableJoin(lambda sale, price: sale["count"] * price, sequence_by="lsn") | beam.Map(print)
    ('apple', 6)
    """

    _null_reason = "null_key"

    def __init__(
        self,
        joiner: Joiner,
        *,
        how: LookupHow = "inner",
        key: str | Sequence[str] | None = None,
        timestamp_by: str | None = None,
        sequence_by: Fields | OfRow | None = None,
        window_of: Callable[[Any, Any], Window | None] | None = None,
        stream_schema: pa.Schema | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__(joiner, how, key, timestamp_by, sequence_by, stream_schema, schema)
        self._window_of = None if window_of is None else function("window_of", window_of, "of key and value that gives a Window")

    def _check(self, stream: TableType, table: TableType) -> None:
        if table.windowed != (self._window_of is not None):
            raise ValueError(
                "window_of names the window of a windowed table that a record looks up: give it for one, and only for one"
                + perhaps_windowed(table)
            )
        common_key_type("StreamTableJoin", stream, table)

    def _row_key(self) -> OfRow:
        window_of = self.handling.functions.function("window_of", self._window_of)

        def row_key(key: Any, value: Any) -> Any:
            if key is None or window_of is None:
                return key
            window = window_of(key, value)
            return None if window is None else Windowed(key, window)

        return row_key

    def _row_key_columns(self) -> tuple[str, Any]:
        return ("key", self._streams.key) if self._window_of is None else ("window_of", self._window_of)
