"""Decodes the records in some bytes of an Avro file with the source that Beam keeps to itself: ``_FastAvroSource`` in 2.62 to 2.77.

Its ``read_records`` takes a path and a range, finds the first block in the range, and goes on to the end of the last block
that begins in it.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from apache_beam.io.avroio import _FastAvroSource
from apache_beam.io.range_trackers import OffsetRangeTracker

_MOST_CHARACTERS: Final = 100
_LACKING: Final = re.compile(r"(\w+) codec is supported but you need to install one of the following libraries: \('([\w.]+)'")
"""The message of fastavro on a codec whose package is missing."""


def records_of_blocks(path: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """The records in the blocks that begin in ``[start, stop)``; raises the errors of fastavro and of the file
    system.
    """
    records: Iterator[dict[str, Any]] = _FastAvroSource(path, validate=False).read_records(path, OffsetRangeTracker(start, stop))
    return records


def lacks_codec(error: Exception) -> bool:
    """Whether the records are compressed with a codec whose package is not installed."""
    return _LACKING.match(str(error)) is not None


def avro_reason(error: Exception) -> str:
    """The reason that fastavro gives, shortened: its message may be all of a schema, or empty."""
    if (codec := _LACKING.match(str(error))) is not None:
        return f"it is compressed with {codec[1]}, which takes a package that is not installed: pip install {codec[2]}"
    said = f"not UTF-8: byte 0x{error.object[error.start]:02x}" if isinstance(error, UnicodeDecodeError) else str(error)
    reason = (said.splitlines() or [type(error).__name__])[0] or type(error).__name__
    return reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}..."
