"""Appends a checksum to bytes and verifies it.

Arrow and Beam read values where bytes say that they lie, without asking whether that is still within them:
damaged bytes must be found before.
"""

import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_digest

from beam_joins.errors import CorruptData

_CHECKSUM = 8


def checked(*content: bytes | pa.Buffer) -> bytes:
    """The content, in one or several parts, followed by its checksum.

    >>> bytes(unchecked(checked(b"rows")))
    b'rows'
    """
    checksum = xxh3_64()
    for part in content:
        checksum.update(part)
    return b"".join((*content, checksum.digest()))


def unchecked(encoded: bytes) -> memoryview:
    """Verifies the checksum and gives the content, not copied; raises :class:`CorruptData`."""
    content = memoryview(encoded)[:-_CHECKSUM]
    if encoded[-_CHECKSUM:] != xxh3_64_digest(content):
        raise CorruptData(f"{len(encoded)} bytes whose checksum is another than when they were written")
    return content
