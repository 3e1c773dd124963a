"""The foreign-key join's messages as records.

A subscription's key is the combined key, its value ``{flags}{instruction}{16-byte hash, if any}``. A response's key is the left row's,
its value ``{flags}{16-byte hash, if any}{right value, if any}``. The flags' byte holds the version (high four bits), 1 if there is a
hash and 2 if there is a right value. Time and position are the record's.
"""

from beam_joins.foreign_key import Instruction, Response, Subscription
from beam_joins.record import Record
from coders.combined_key import combine, split
from coders.corrupt import CorruptData

_VERSION = 1 << 4
_HAS_HASH, _HAS_VALUE = 1, 2
_HASH = 16
_INSTRUCTIONS = tuple(Instruction)  # in the order of their numbers


def write_subscription(message: Subscription, *, input: int) -> Record:
    """The subscription as a record of the given input.

    >>> write_subscription(Subscription(b"A", b"k", Instruction(3), None, 5, 7), input=0).value.hex()
    '1003'
    """
    foreign_key, primary_key, instruction, value_hash, timestamp, position = message
    flags = _VERSION if value_hash is None else _VERSION | _HAS_HASH
    value = bytes((flags, instruction)) + (value_hash or b"")
    return Record(combine(foreign_key, primary_key), value, timestamp, position, input)


def read_subscription(record: Record) -> Subscription:
    """The subscription that a record holds; raises :class:`CorruptData`."""
    foreign_key, primary_key = split(record.key)
    value = record.value
    flags = _flags(value, _HAS_HASH, least=2)
    assert value is not None
    if len(value) != 2 + (_HASH if flags & _HAS_HASH else 0) or value[1] >= len(_INSTRUCTIONS):
        raise CorruptData(f"a subscription of {len(value)} bytes cannot hold {value[:2].hex()}")
    value_hash = value[2:] if flags & _HAS_HASH else None
    return Subscription(foreign_key, primary_key, _INSTRUCTIONS[value[1]], value_hash, record.timestamp, record.position)


def write_response(message: Response, *, input: int) -> Record:
    """The response as a record of the given input.

    >>> write_response(Response(b"k", None, b"foo", 5, 7), input=1).value.hex()
    '12666f6f'
    """
    primary_key, value_hash, right, timestamp, position = message
    flags = _VERSION | (0 if value_hash is None else _HAS_HASH) | (0 if right is None else _HAS_VALUE)
    return Record(primary_key, bytes((flags,)) + (value_hash or b"") + (right or b""), timestamp, position, input)


def read_response(record: Record) -> Response:
    """The response that a record holds; raises :class:`CorruptData`."""
    value = record.value
    flags = _flags(value, _HAS_HASH | _HAS_VALUE, least=1)
    assert value is not None
    at = 1 + (_HASH if flags & _HAS_HASH else 0)
    if len(value) < at or (len(value) > at and not flags & _HAS_VALUE):
        raise CorruptData(f"a response of {len(value)} bytes cannot begin with {flags:#04x}")
    value_hash = value[1:at] if flags & _HAS_HASH else None
    return Response(record.key, value_hash, value[at:] if flags & _HAS_VALUE else None, record.timestamp, record.position)


def _flags(value: bytes | None, known: int, *, least: int) -> int:
    if value is None or len(value) < least or value[0] & ~known != _VERSION:
        raise CorruptData(f"a message cannot begin with {'nothing' if value is None else value[:1].hex() or 'nothing'}")
    return value[0]
