"""Registers coders for Beam's types, for users' types in the canonical encoding, and for Python objects as
values.
"""

import apache_beam as beam
from apache_beam.utils.timestamp import Timestamp

from beam_joins.coders import values
from beam_joins.coders.own_types import read_own, write_own_key
from beam_joins.keys import canonical, opaque
from beam_joins.keys.numbers import WHOLE, NotCanonical, read_number, whole
from beam_joins.keys.times import TIMESTAMP


def _timestamp(value: Timestamp) -> bytes:
    micros = value.micros
    if Timestamp(micros=micros) != value:
        raise NotCanonical(f"{value!r} has nanoseconds, and times are compared in microseconds: round it")
    written = whole(micros)
    if written[:1] != WHOLE:
        raise NotCanonical(f"{value!r} does not fit in 64 bits as microseconds")
    return written[1:]


def _row(value: beam.Row) -> bytes:  # rows are equal if their fields have one order
    return canonical.joined(canonical.encode(part) for pair in value.as_dict().items() for part in pair)


canonical.register(Timestamp, TIMESTAMP, _timestamp, lambda data: Timestamp(micros=read_number(data)))
canonical.register(beam.Row, canonical.ROW, _row, lambda data: beam.Row(**canonical.read_fields(data)))
canonical.register(object, canonical.OWN, write_own_key, read_own)  # the last base: of what has no other encoding
opaque.register("value", values.encode, values.decode)
