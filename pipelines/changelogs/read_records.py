"""Reads the parts of files in a pipeline, with one policy for bad records; counts what it reads."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from time import perf_counter_ns
from typing import Any, Final, Literal, NamedTuple, Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection, TaggedOutput

from beam_joins import Dropped
from beam_joins.elements.iso_times import text_of_micros
from beam_joins.errors import InputError, kind_of
from beam_joins.pipelines.base.paths import require_seen
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.base.spread import Spread
from beam_joins.pipelines.changelogs.read_log import LogEntries
from beam_joins.pipelines.changelogs.tombstones_in_files import UNPAIRED, Beginning, RequireDeletes
from beam_joins.pipelines.formats.changelog_columns import now
from beam_joins.pipelines.formats.envelopes.debezium_json import TOMBSTONE_ALONE
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.results.counts import Tally, at_bundle_end
from beam_joins.transforms.connect.metrics import NAMESPACE
from beam_joins.transforms.connect.runs import Handed, KeptSignatures
from beam_joins.transforms.connect.tables import as_arrow

OnBadRecord = Literal["fail", "drop"]
COUNTS: Final = "counts"
BAD_RECORDS: Final = "bad_records"
READ: Final = "read"
BAD_RECORD: Final = "bad_record"
AHEAD: Final = "ahead_of_clock"
FAR_AHEAD: Final = 86_400_000_000
"""The distance from the clock, in microseconds, from which on times are told: a day, as clocks and time zones differ."""
SKIPPED: Final = "skipped_"
"""The prefix of the counts of records about no row."""
GOES_ON: Final = "goes on without such records"
"""The end of the remedy that leaves bad records out."""
_LONGEST_FAULT: Final = 300


class Ahead(NamedTuple):
    """The number of records whose times are far ahead of the clock, and time and place of the furthest."""

    records: int
    time: int
    place: int


class MadeRows(NamedTuple):
    """The result of reading some records of a part: the elements, the number of records, the faults of bad records by
    their places, the numbers of items about no row, by their kind, and the records that are far ahead of the clock.
    """

    elements: Sequence[Any]
    records: int
    faults: Sequence[tuple[int, str]] = ()
    skipped: Mapping[str, int] = {}
    ahead: Ahead | None = None


class RecordReader(Protocol):
    """A reader that makes elements of the records of a part."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the record batches that it gives; None where it gives dicts."""

    def made(self, part: Part) -> Iterator[MadeRows]:
        """The records of a part, some at a time.

        Raises ValueError, one sentence without the path, OSError and EOFError for a file that cannot be read.
        """


class Read(NamedTuple):
    """The records of files, the bad ones that were dropped, and the counts of what was read and skipped."""

    rows: PCollection[Any]
    bad_records: PCollection[Dropped]
    counts: PCollection[Tally]


class ReadRecords(beam.PTransform[PBegin, Any]):
    """The records of the parts of files, in no order, as ``reader`` makes them; gives a :class:`Read`.

    A bad record fails the run with an InputError that names the file and the line, and ``remedy``; or is
    dropped, with this sentence as the record. ``named``: sentences begin with the ``name`` of the changelog.
    ``bytes`` is about how large the files are, and ``log`` where workers say how far they have come. Tombstones in files with a
    ``beginning`` are required to have their deletes; the number of deletes without them is handed on by ``left_open``.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Part],
        reader: RecordReader,
        *,
        bytes: int,
        on_bad_record: OnBadRecord = "fail",
        remedy: str = "",
        named: bool = False,
        log: LogEntries | None = None,
        beginning: Beginning | None = None,
        left_open: Handed | None = None,
    ) -> None:
        super().__init__()
        self._name, self._parts, self._schema, self._bytes = name, parts, reader.schema, bytes
        self._beginning, self._left_open = beginning, left_open
        self._read = ReadParts(name, reader, on_bad_record, remedy, f"{name}: " if named else "", log, beginning)

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        parts = begin | "Parts" >> Spread(partial(list, self._parts), Part)
        outputs = parts | "Read" >> beam.ParDo(self._read).with_outputs(BAD_RECORDS, COUNTS, main="rows")
        rows = outputs["rows"]
        rows.element_type = dict[str, Any] if self._schema is None else pa.RecordBatch
        if self._schema is not None:
            rows = as_arrow(rows, self._schema, size=self._bytes)
        outputs[BAD_RECORDS].element_type = Dropped
        if self._beginning is not None:
            _ = outputs[COUNTS] | "Require deletes" >> RequireDeletes(self._name, self._beginning.deletes, self._left_open)
        return Read(rows, outputs[BAD_RECORDS], outputs[COUNTS])


class ReadParts(KeptSignatures):
    """Turns parts into the elements that ``reader`` makes of them; dropped records and counts are outputs of their
    own.
    """

    def __init__(
        self,
        name: str,
        reader: RecordReader,
        on_bad_record: OnBadRecord,
        remedy: str = "",
        begin: str = "",
        log: LogEntries | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        self._name, self._reader, self._on_bad_record = name, reader, on_bad_record
        self._remedy, self._begin, self._log, self._beginning = remedy, begin, log, beginning

    def start_bundle(self) -> None:
        """Count from nothing."""
        self._counts: Counter[str] = Counter()
        self._furthest: int | None = None
        self._example: dict[str, str] = {}

    def process(self, element: Part) -> Iterator[Any]:
        """Read a part."""
        part = element
        made = self._made(part)
        with nullcontext() if self._log is None else self._log.of(part) as entries:
            while True:
                begin = perf_counter_ns()
                try:
                    some = next(made, None)
                except InputError:
                    raise
                except (OSError, EOFError, ValueError) as error:
                    raise kind_of(error)(f"{self._begin}{part.file.shown} {_sentence(error)}") from error
                if some is None:
                    return
                if entries is not None:
                    entries.add(some.records, perf_counter_ns() - begin)
                for place, fault in some.faults:
                    yield TaggedOutput(BAD_RECORDS, self._dropped(part, place, fault, some))
                self._count(part, some)
                yield from some.elements

    def _made(self, part: Part) -> Iterator[MadeRows]:
        if part.file.storage is None:
            require_seen(part.file.path, part.file.bytes)
        yield from self._reader.made(part)

    def finish_bundle(self) -> Iterator[Any]:
        """Give the counts."""
        for what, count in self._counts.items():
            examples = (self._example[what],) if what in self._example else ()
            yield TaggedOutput(COUNTS, at_bundle_end(Tally(self._name, what, count, examples)))

    def _count(self, part: Part, some: MadeRows) -> None:
        self._counts[READ] += some.records
        if some.faults:
            Metrics.counter(NAMESPACE, f"dropped_{BAD_RECORD}").inc(len(some.faults))
        for what, count in some.skipped.items():
            if what in UNPAIRED:
                self._count_unpaired(part.file, what, count)
                continue
            self._counts[f"{SKIPPED}{what}"] += count
            Metrics.counter(NAMESPACE, f"{SKIPPED}{what}").inc(count)
        if some.ahead is not None:
            self._counts[AHEAD] += some.ahead.records
            Metrics.counter(NAMESPACE, AHEAD).inc(some.ahead.records)
            if self._furthest is None or some.ahead.time > self._furthest:
                self._furthest, self._example[AHEAD] = some.ahead.time, self._far_ahead(part, some.ahead)

    def _count_unpaired(self, file: File, what: str, count: int) -> None:
        if self._beginning is None or (what == TOMBSTONE_ALONE and file.path == self._beginning.path):
            return
        self._counts[what] += count
        if what == TOMBSTONE_ALONE:
            self._example.setdefault(what, file.shown)

    @staticmethod
    def _far_ahead(part: Part, ahead: Ahead) -> str:
        days = (ahead.time - now()) // FAR_AHEAD
        place = part.file.reader.where(part, ahead.place)
        return f"{part.file.shown}, {place}: {text_of_micros(ahead.time)}, {counted(days, 'day')} ahead"

    def _dropped(self, part: Part, place: int, fault: str, among: MadeRows) -> Dropped:
        fault = fault if len(fault) <= _LONGEST_FAULT else f"{fault[:_LONGEST_FAULT]}..."
        sentence = f"{self._begin}{part.file.shown}, {part.file.reader.where(part, place)}: {fault}"
        if self._on_bad_record == "fail":
            raise InputError(f"{sentence}{self._way_on(len(among.faults), among.records)}")
        return Dropped(BAD_RECORD, sentence, 0)

    def _way_on(self, bad: int, records: int) -> str:
        """The remedy in brackets; where it leaves out several records with how many they are, and not where they are most."""
        if bad == 1 or not self._remedy.endswith(GOES_ON):
            return self._remedy and f" ({self._remedy})"
        if bad > records // 2:
            return f" (so are {bad:,} of the {records:,} records looked at: the input is not as the options say)"
        return f" ({self._remedy}, {bad:,} of the {records:,} looked at)"


def _sentence(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "is cut off"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)
