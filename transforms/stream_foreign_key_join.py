"""StreamForeignKeyJoin: joins each record of a stream with the table row that it refers to, as of the
record's position (KIP-99).
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from beam_joins.functions.fields import Fields, of_row
from beam_joins.functions.joiner import Joiner
from beam_joins.functions.typed_rows import Schema
from beam_joins.options.join_types import LookupHow
from beam_joins.transforms.engine.stream_lookup import StreamLookupJoin
from beam_joins.transforms.engine.streams import OfRow


class StreamForeignKeyJoin(StreamLookupJoin):
    """Joins each record of a stream with the table row that its foreign key refers to, as the row was at the
    record's position.

    ``(PCollection[tuple[K, V]], Table[FK, W]) -> PCollection[tuple[K, R]]``: as :class:`StreamTableJoin`, but
    the row is that of another key, as in Kafka Streams' join of a stream with a global table. The result has
    the stream's key, which may be ``None``.

    * ``foreign_key``: the field of the stream's value with the key of the row, or several fields for a
      compound key; or a function of key and value, ``None`` for no row.
    * ``joiner``, ``how``, ``key``, ``timestamp_by``, ``sequence_by``, ``stream_schema``, ``schema``: as in
      :class:`~beam_joins.StreamTableJoin`.

    Records with a ``"null_value"``, a ``"null_sequence"``, of Arrow batches a ``"null_timestamp"`` or, in an
    inner join, a ``"null_foreign_key"`` are dropped: counted, and an output of :meth:`with_outputs`
    (``stream``, ``dropped``). A left join emits records with a null foreign key as ``(key, joiner(value,
    None))``.

    Raises ``ValueError`` as :class:`StreamTableJoin`, and in the run for foreign keys that no key of the
    table can equal.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     users = pipeline | "users" >> beam.Create([Change(7, None, "Ann", timestamp=0, position=1)])
    ...     clicks = pipeline | "clicks" >> beam.Create([("page", {"user": 7, "lsn": 0}), ("page", {"user": 7, "lsn": 2})])
    ...     who = StreamForeignKeyJoin(lambda click, name: name or "?", foreign_key="user", how="left", sequence_by="lsn")
    ...     _ = (clicks, users) | who | beam.Map(print)
    ('page', '?')
    ('page', 'Ann')
    """

    _null_reason = "null_foreign_key"

    def __init__(
        self,
        joiner: Joiner,
        *,
        foreign_key: Fields | OfRow,
        how: LookupHow = "inner",
        key: str | Sequence[str] | None = None,
        timestamp_by: str | None = None,
        sequence_by: Fields | OfRow | None = None,
        stream_schema: pa.Schema | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__(joiner, how, key, timestamp_by, sequence_by, stream_schema, schema)
        self._called, self._foreign_key = of_row("foreign_key", foreign_key), foreign_key

    def _row_key(self) -> OfRow:
        row_key: OfRow = self.handling.functions.function("foreign_key", self._foreign_key, self._called)
        return row_key

    def _row_key_columns(self) -> tuple[str, Any]:
        return "foreign_key", self._foreign_key
