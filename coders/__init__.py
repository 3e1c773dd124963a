"""How changes, keys, messages and blocks are written as bytes. Whatever is not theirs to read raises :class:`CorruptData`."""

from coders.block import read_block, write_block
from coders.change import ChangeCoder
from coders.combined_key import CombinedKeyCoder
from coders.corrupt import CorruptData
from coders.key import key_coder, value_coder
from coders.windowed import WindowedCoder

__all__ = [
    "ChangeCoder",
    "CombinedKeyCoder",
    "CorruptData",
    "WindowedCoder",
    "key_coder",
    "read_block",
    "value_coder",
    "write_block",
]
