"""StreamForeignKeyJoin: each record of a stream with the row that it refers to, as of the record's position (KIP-99)."""

from collections.abc import Callable
from typing import Any

from apache_beam.coders import Coder, NullableCoder

from beam_joins.coders.combined_key import combine, split
from beam_joins.coders.key import encode_key, value_coder
from beam_joins.fields import Fields, place_of_row
from beam_joins.transforms.engine.stream_lookup_join import LookupKeys, StreamLookupJoin
from beam_joins.transforms.engine.stream_rows import OfRow
from beam_joins.transforms.engine.table_type import TableType
from tests.reference.stream_lookup import LookupStreamHow


class StreamForeignKeyJoin(StreamLookupJoin):
    """Each record of a stream with the row of a table that it refers to, as the row was at the record's position.

    ``(PCollection[tuple[K, V]], PCollection[Change[FK, W]]) -> PCollection[tuple[K, R]]``: as :class:`StreamTableJoin`, but the row is that of
    another key, as in Kafka Streams' join of a stream with a global table. The result has the stream's key, which may be ``None``.

    * ``foreign_key(key, value)`` gives the key of the row, or ``None``; or name the field of the value, or several for a
      compound key.
    * ``joiner``, ``how``, ``sequence_by``, ``partitions``: as :class:`StreamTableJoin`.

    Dropped, counted, and an output of :meth:`with_outputs` (``joined``, ``dropped``), are records with a ``"null_value"``, a
    ``"null_sequence"`` or, in an inner join, a ``"null_foreign_key"``; a left join gives those as ``(key, joiner(value, None))``.

    Raises ``ValueError`` as :class:`StreamTableJoin`, and in the run for foreign keys that no key of the table can equal.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     users = pipeline | "users" >> beam.Create([Change(7, None, "Ann", timestamp=0, position=1)])
    ...     clicks = pipeline | "clicks" >> beam.Create([("page", {"user": 7, "lsn": 2}), ("page", {"user": 7, "lsn": 0})])
    ...     who = StreamForeignKeyJoin(foreign_key="user", joiner=lambda click, name: name or "?", how="left", sequence_by="lsn")
    ...     _ = (clicks, users) | who | beam.Map(print)
    ('page', '?')
    ('page', 'Ann')
    """

    _null_reason = "null_foreign_key"

    def __init__(
        self,
        *,
        foreign_key: Fields | OfRow,
        joiner: Callable[[Any, Any], Any],
        how: LookupStreamHow = "inner",
        sequence_by: Fields | OfRow | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(joiner, how, LookupStreamHow, sequence_by=sequence_by, partitions=partitions)
        self._foreign_key, self._foreign_key_given = place_of_row("foreign_key", foreign_key), foreign_key

    def _row_key(self) -> OfRow:
        row_key: OfRow = self.handling.functions.function("foreign_key", self._foreign_key_given, self._foreign_key)
        return row_key

    def _keys(self, stream: TableType, table: TableType, table_keys: Coder) -> LookupKeys:
        foreign_key = self._row_key()
        # The stream's key is carried along, not compared: any coder will do, and there may be none.
        own_keys = NullableCoder(value_coder(stream.key))

        def written(key: Any, value: Any) -> tuple[bytes, bytes] | None:
            extracted = foreign_key(key, value)
            if extracted is None:
                return None
            encoded = encode_key(table_keys, extracted, "the foreign key")
            return encoded, combine(encoded, encode_key(own_keys, key, "the key"))

        return LookupKeys(
            written, lambda encoded: split(encoded).foreign_key, lambda encoded: own_keys.decode(split(encoded).primary_key)
        )
