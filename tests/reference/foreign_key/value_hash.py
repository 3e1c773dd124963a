"""The hash by which an answer is known to belong to the current left row."""

import xxhash


def value_hash(encoded: bytes | None, position: int) -> bytes | None:
    """XXH3-128 of an encoded value, seeded with the position at which it was written, 16 bytes; ``None`` for
    a deleted row.

    Beyond Kafka, which hashes the value alone: a row that is deleted and written again with the same value is
    another row, and an answer to the first must not be taken for one to the second, which may get none.

    It is taken of bytes that travel with the change, never of a value encoded again: two encodings of one
    value may differ (KAFKA-15303).

    >>> value_hash(b"", 0).hex()
    '99aa06d3014798d86001c324468d497f'
    """
    return None if encoded is None else xxhash.xxh3_128_digest(encoded, seed=position % 2**64)
