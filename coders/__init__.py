"""How changes, keys and blocks are written as bytes. Whatever is not theirs to read raises :class:`CorruptData`."""

from coders.block import read_block, write_block
from coders.change import ChangeCoder
from coders.change_batch import ChangeBatch, ChangeBatchCoder
from coders.combined_key import CombinedKeyCoder
from coders.corrupt import CorruptData
from coders.key import key_coder, value_coder
from coders.windowed import WindowedCoder

__all__ = [
    "ChangeBatch",
    "ChangeBatchCoder",
    "ChangeCoder",
    "CombinedKeyCoder",
    "CorruptData",
    "WindowedCoder",
    "key_coder",
    "read_block",
    "value_coder",
    "write_block",
]
