"""The newest value of every change as a record: what a table is to an operator that orders it by itself.

Old values are not shuffled: the operator that orders the records of a row knows them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from apache_beam.coders import Coder

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.coders.key import KeyCoder, encode_key
from beam_joins.coders.windowed import WindowedCoder, source_key
from beam_joins.joiner import narrowed
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.replay import RowRouter
from beam_joins.transforms.engine.table_type import not_a_change, not_known_windowed
from beam_joins.windowed import Windowed


def table_rows(
    to: str,
    keys: Coder | Callable[[Any], bytes],
    values: Coder,
    *,
    input: int = 0,
    route: Callable[[bytes], bytes] | None = None,
    windowed: bool = False,
    noted: Callable[[bytes], bytes | None] | None = None,
) -> RowRouter:
    """The records of a table as ``input`` of the replay named ``to``.

    ``keys`` is the keys' coder, or whatever else encodes a key, ``windowed`` ones too if it says so; ``route`` makes the routing key of an
    encoded key; ``noted`` gives what is canonical of it (:func:`canonical_part`). The run raises ``ValueError`` for a windowed key of a table that is not known to be windowed.
    """
    canonical = canonical_part(keys) if isinstance(keys, Coder) else noted
    windowed = windowed or isinstance(keys, WindowedCoder)
    encode: Callable[[Any], bytes] = partial(encode_key, keys, what="the key") if isinstance(keys, Coder) else keys

    def rows(change: Change[Any, Any], arrival: int, writer: BlockWriter) -> None:
        if type(change) is not Change:
            raise not_a_change(change)
        key, old, new, timestamp, position = change
        if type(key) is Windowed and not windowed:
            raise not_known_windowed(key)
        encoded_key = encode(key)
        if canonical is not None and (part := canonical(encoded_key)) is not None:
            writer.note_key(to, part)
        record = Record(encoded_key, None if new is None else values.encode(new), timestamp, position, input)
        writer.send(to, route(encoded_key) if route else encoded_key, record)

    return rows


def canonical_part(keys: Coder) -> Callable[[bytes], bytes] | None:
    """The function that gives what is canonical of an encoded key, of a windowed one its source key; ``None`` for a coder of the user's own.

    By its kind it is told whether two tables' keys can ever be equal (:mod:`beam_joins.transforms.engine.notes`).
    """
    if isinstance(keys, KeyCoder):
        return _itself
    return source_key if isinstance(keys, WindowedCoder) and isinstance(keys.source_coder, KeyCoder) else None


def _itself(encoded: bytes) -> bytes:
    return encoded


def batch_rows(to: str, columns: frozenset[str] | None = None) -> RowRouter:
    """The rows of a table in columns for the replay named ``to``, with the given columns of their values (``None``: all)."""

    def rows(batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
        if not isinstance(batch, ChangeBatch):
            raise not_a_change(batch)
        arrays = [batch.key, narrowed(batch.new, columns), batch.timestamp, batch.position]
        table = pa.record_batch(arrays, names=["key", "value", "timestamp", "position"])
        writer.noted(to).update(kinds(batch.key))
        writer.send_columns(to, hashes(batch.key), table)

    return rows
