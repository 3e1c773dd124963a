"""A few of the records that were dropped or late, for people to look at."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import apache_beam as beam

from beam_joins.pipelines.changelog_files.tally import EXAMPLES, at_bundle_end
from beam_joins.pipelines.report.figure import SAMPLE, Figure

_LONGEST: Final = 400
_TEXT: Final = "json lines"
_PAIR: Final = 2


class Samples(beam.DoFn):
    """``PCollection[Dropped]`` to one :class:`Figure` a reason and bundle, with the first few records."""

    def __init__(self, place: str) -> None:
        self._place = place

    def start_bundle(self) -> None:
        """Begin without any."""
        self._taken: dict[str, list[str]] = {}

    def process(self, element: Any) -> None:
        """Take a record if there are not enough."""
        taken = self._taken.setdefault(element.reason, [])
        if len(taken) < EXAMPLES:
            taken.append(text_of(element.record))

    def finish_bundle(self) -> Iterator[Any]:
        """Give those taken."""
        for reason, taken in self._taken.items():
            yield at_bundle_end(Figure(SAMPLE, self._place, [reason, taken]))


def text_of(record: Any) -> str:
    """A record, a mapping or a pair of a key and one, as people read it: its line of JSON, or what else is known of it.

    >>> text_of({"key": 7, "time": 5, "json lines": b'{"id":7}'})
    '{"id":7}'
    >>> text_of({"key": 7, "avro": b"..."})
    'key 7'
    """
    if isinstance(record, tuple) and len(record) == _PAIR and isinstance(record[1], Mapping):
        record = {"key": record[0], **record[1]}
    if not isinstance(record, Mapping):
        text = str(record)
    elif isinstance(line := record.get(_TEXT), bytes):
        text = line.decode(errors="replace")
    else:
        text = ", ".join(f"{name} {value}" for name, value in record.items() if not isinstance(value, bytes) and value is not None)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def samples_in(figures: Iterable[Figure]) -> dict[tuple[str, str], list[str]]:
    """The records of each place and reason, in the order of their texts."""
    found: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        if figure.what == SAMPLE:
            reason, taken = figure.content
            found[figure.place, reason] = sorted({*found.get((figure.place, reason), ()), *taken})[:EXAMPLES]
    return found
