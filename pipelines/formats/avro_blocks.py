"""Decodes the records in some bytes of an Avro file with the source that Beam keeps to itself: ``_FastAvroSource`` in 2.62 to 2.77.

Its ``read_records`` takes a path and a range, finds the first block in the range, and goes on to the end of the last block
that begins in it.
"""

from collections.abc import Iterator
from typing import Any

from apache_beam.io.avroio import _FastAvroSource
from apache_beam.io.range_trackers import OffsetRangeTracker


def records_of_blocks(path: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """The records in the blocks that begin in ``[start, stop)``; raises what fastavro and the file system raise."""
    records: Iterator[dict[str, Any]] = _FastAvroSource(path, validate=False).read_records(path, OffsetRangeTracker(start, stop))
    return records
