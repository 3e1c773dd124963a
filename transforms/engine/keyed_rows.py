"""The rows of a table on their way to a replay, by their keys."""

from typing import Any

import pyarrow as pa

from beam_joins.batch import ChangeBatch
from beam_joins.joiner import narrowed
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.replay import RowRouter
from beam_joins.transforms.engine.table_type import not_a_change


def table_rows(to: str, columns: frozenset[str] | None = None) -> RowRouter:
    """The rows of a table by their keys, with the given columns of their values (``None``: all)."""

    def rows(batch: Any, arrival: int, writer: BlockWriter) -> None:
        require_batch(batch)
        arrays = [batch.key, narrowed(batch.new, columns), batch.timestamp, batch.position]
        writer.noted(to).update(kinds(batch.key))
        writer.send(to, hashes(batch.key), pa.record_batch(arrays, names=["key", "value", "timestamp", "position"]))

    return rows


def require_batch(batch: Any) -> None:
    """Raise ``ValueError`` for an element of a table that is no batch of changes."""
    if not isinstance(batch, ChangeBatch):
        raise not_a_change(batch)
