"""The hash by which an answer is known to belong to the current left value."""

import xxhash


def value_hash(encoded: bytes | None) -> bytes | None:
    """XXH3-128 of an encoded value, 16 bytes; ``None`` for a deleted row.

    It is taken of bytes that travel with the change, never of a value encoded again: two encodings of one value may differ
    (KAFKA-15303).

    >>> value_hash(b"").hex()
    '99aa06d3014798d86001c324468d497f'
    """
    return None if encoded is None else xxhash.xxh3_128_digest(encoded)
