"""Coders of changes, keys, blocks and snapshots.

Decoding bytes that another coder wrote raises :class:`CorruptData`.
"""

from beam_joins.coders import beam_values as beam_values
from beam_joins.coders.arrow import ArrowTableCoder, RecordBatchCoder
from beam_joins.coders.block import read_block, write_block
from beam_joins.coders.change import ChangeCoder
from beam_joins.coders.change_batch import ChangeBatchCoder
from beam_joins.coders.combined_key import CombinedKeyCoder
from beam_joins.coders.dropped import DroppedCoder
from beam_joins.coders.key import key_coder, value_coder
from beam_joins.coders.windowed import WindowedCoder
from beam_joins.errors import CorruptData

__all__ = [
    "ArrowTableCoder",
    "ChangeBatchCoder",
    "ChangeCoder",
    "CombinedKeyCoder",
    "CorruptData",
    "DroppedCoder",
    "RecordBatchCoder",
    "WindowedCoder",
    "key_coder",
    "read_block",
    "value_coder",
    "write_block",
]
