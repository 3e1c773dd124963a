"""Reads a changelog in a pipeline: its records in columns, and a tally of the records read and dropped."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from time import perf_counter_ns
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection, TaggedOutput

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.changelogs.changelog import Changelog
from beam_joins.pipelines.changelogs.read_log import LogEntries
from beam_joins.pipelines.formats.exact_rows import ExactRows, row_text
from beam_joins.pipelines.formats.files import Part
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows, ignored_rows, structs_one_by_one, typed_rows
from beam_joins.pipelines.formats.registry import SOURCES
from beam_joins.pipelines.results.counts import EXAMPLES, Tally, at_bundle_end
from beam_joins.transforms.connect import as_arrow

OnBadRecord = Literal["fail", "drop"]
TALLIES: Final = "tallies"
READ: Final = "read"
BAD_RECORD: Final = "bad_record"
SKIPPED: Final = "skipped_"
"""What the names of counts begin with that are of lines about no row."""
IGNORED: Final = "ignored_operation"
_LONGEST_FAULT: Final = 300


class Read(NamedTuple):
    """The records of a changelog, and what was counted on the way."""

    rows: PCollection[Any]
    tallies: PCollection[Tally]


class ReadRecords(beam.PTransform[Any, Any]):
    """The records of a changelog, in no order: ``PCollection[pyarrow.RecordBatch]`` with the columns of
    ``reading``.

    A bad record is one that does not have what ``reading`` asks for, or a line that is not a JSON object. It
    fails the run with an InputError that names the file and the line, or is dropped and counted. ``log`` is
    where workers say how far they have come.
    """

    def __init__(
        self,
        changelog: Changelog,
        reading: Reading,
        *,
        on_bad_record: OnBadRecord = "fail",
        log: LogEntries | None = None,
    ) -> None:
        super().__init__()
        self._parts = changelog.parts()
        self._bytes = changelog.bytes
        self._schema = reading.schema
        self._read = _ReadColumns(changelog.name, reading, on_bad_record, log)

    def expand(self, pipeline: Any) -> Any:
        """Apply the transform."""
        parts = pipeline | "Parts" >> beam.Create(self._parts, reshuffle=False)
        outputs = parts | "Spread" >> beam.Reshuffle() | "Read" >> beam.ParDo(self._read).with_outputs(TALLIES, main="rows")
        rows = outputs["rows"]
        rows.element_type = pa.RecordBatch
        return Read(as_arrow(rows, self._schema, size=self._bytes), outputs[TALLIES])


class _ReadColumns(beam.DoFn):
    """The good records of a part as record batches: first those that are read many at a time, then the
    others.
    """

    def __init__(self, name: str, reading: Reading, on_bad_record: OnBadRecord, log: LogEntries | None = None) -> None:
        self._log = log
        self._name = name
        self._reading = reading
        self._on_bad_record = on_bad_record

    def start_bundle(self) -> None:
        self._count = self._bad = 0
        self._examples: list[str] = []
        self._skipped: Counter[str] = Counter()

    def process(self, element: Part) -> Iterator[Any]:
        part = element
        reading = self._reading.of_unit(part.file.unit)
        source = SOURCES[part.file.format].rows(part, reading)
        with nullcontext() if self._log is None else self._log.of(part) as entries:
            while True:
                begin = perf_counter_ns()
                try:
                    raw = next(source, None)
                except (OSError, EOFError, ValueError) as error:
                    raise InputError(f"{self._name}: {part.file.shown} {_sentence(error)}") from error
                if raw is None:
                    return
                self._count += len(raw.places)
                self._skipped.update(raw.skipped)
                good = list(self._good(part, raw, reading))
                if entries is not None:
                    entries.add(len(raw.places), perf_counter_ns() - begin)
                yield from good

    def finish_bundle(self) -> Iterator[Any]:
        yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, READ, self._count)))
        if self._bad:
            yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, BAD_RECORD, self._bad, tuple(self._examples))))
        for what, count in self._skipped.items():
            yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, f"{SKIPPED}{what}", count)))

    def _good(self, part: Part, raw: RawRows, reading: Reading) -> Iterator[pa.RecordBatch]:
        batch, sure = typed_rows(raw, reading)
        others, added = ExactRows(reading), list[int]()
        ignored = ignored_rows(raw, reading)
        if ignored.any():
            self._skipped[IGNORED] += int(ignored.sum())
        for n, row in self._one_by_one(part, raw, reading, np.flatnonzero(~sure & ~ignored).tolist()):
            others.add(row, raw.places[n].as_py(), raw.text(n))
            added.append(n)
        if batch is not None and len(batch):
            yield batch
        if len(others):
            yield others.batch(None if raw.structs is None else raw.structs.take(pa.array(added)))

    def _one_by_one(self, part: Part, raw: RawRows, reading: Reading, chosen: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the dict of each of the records that has no fault."""
        for n in chosen:
            row = raw.row(n)
            if isinstance(row, dict) and reading.columns.is_ignored(row):
                self._skipped[IGNORED] += 1
                continue
            fault = row if isinstance(row, str) else reading.fault(row) or _type_fault(raw, n, row, reading)
            key = reading.columns.key
            if fault and reading.columns.enveloped and isinstance(row, dict) and all(row.get(column) is not None for column in key):
                named = ", ".join(f"{column} {row[column]!r}" for column in key)
                fault = f"{fault}; without the change the row with {named} is not right"
            if fault is None and not isinstance(row, str):
                yield n, row
            else:
                self._drop(part, raw.places[n].as_py(), str(fault))

    def _drop(self, part: Part, place: int, fault: str) -> None:
        if self._on_bad_record == "drop":
            self._bad += 1
            if len(self._examples) >= EXAMPLES:
                return
        fault = fault if len(fault) <= _LONGEST_FAULT else f"{fault[:_LONGEST_FAULT]}..."
        sentence = f"{self._name}: {part.file.shown}, {SOURCES[part.file.format].where(part, place)}: {fault}"
        if self._on_bad_record == "fail":
            raise InputError(f"{sentence} (--on-bad-record=drop goes on without such records)")
        self._examples.append(sentence)


def _type_fault(raw: RawRows, n: int, row: dict[str, Any], reading: Reading) -> str | None:
    """Why a row has no place in typed columns, or None."""
    if "columns" not in reading.forms or raw.structs is not None:
        return None
    try:
        structs_one_by_one([raw.text(n) or row_text(row, reading)], reading)
    except ValueError as error:
        return f"{error} ({reading.columns.flag('schema')} says the types of columns)"
    return None


def _sentence(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "is cut off"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)
