"""Reading a changelog in a pipeline: its records in columns or as dicts, and a tally of what was read and what was dropped."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from time import perf_counter_ns
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection, TaggedOutput

from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.exact_rows import ExactRows
from beam_joins.pipelines.changelog_files.files import Part
from beam_joins.pipelines.changelog_files.formats import SOURCES
from beam_joins.pipelines.changelog_files.raw_rows import RawRows, typed_rows
from beam_joins.pipelines.changelog_files.read_log import LogEntries
from beam_joins.pipelines.changelog_files.reading import Reading
from beam_joins.pipelines.changelog_files.tally import EXAMPLES, Tally, at_bundle_end
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.transforms.engine.arrow_input import as_arrow

OnBadRecord = Literal["fail", "drop"]
TALLIES: Final = "tallies"
READ: Final = "read"
BAD_RECORD: Final = "bad_record"
_LONGEST_FAULT: Final = 300


class Read(NamedTuple):
    """The records of a changelog, and what was counted on the way."""

    rows: PCollection[Any]
    tallies: PCollection[Tally]


class ReadChangelog(beam.PTransform[Any, Any]):
    """The records of a changelog, in no order: ``PCollection[pyarrow.RecordBatch]`` with the columns of ``reading``, or with ``as_dicts`` one by one.

    A bad record is one that does not have what ``reading`` asks for, or a line that is not a JSON object. It fails the run with an InputError that
    names the file and the line, or is dropped and counted. ``log`` is where workers say how far they have come.
    """

    def __init__(
        self,
        changelog: Changelog,
        reading: Reading,
        *,
        on_bad_record: OnBadRecord = "fail",
        as_dicts: bool = False,
        log: LogEntries | None = None,
    ) -> None:
        super().__init__()
        self._parts = changelog.parts()
        self._bytes = changelog.bytes
        self._schema = None if as_dicts else reading.schema
        self._read = (_ReadDicts if as_dicts else _ReadColumns)(changelog.name, reading, on_bad_record, log)

    def expand(self, pipeline: Any) -> Any:
        """Apply the transform."""
        parts = pipeline | "Parts" >> beam.Create(self._parts, reshuffle=False)
        outputs = parts | "Spread" >> beam.Reshuffle() | "Read" >> beam.ParDo(self._read).with_outputs(TALLIES, main="rows")
        rows = outputs["rows"]
        if self._schema is not None:
            rows.element_type = pa.RecordBatch
            rows = as_arrow(rows, self._schema, size=self._bytes)
        return Read(rows, outputs[TALLIES])


class _ReadDicts(beam.DoFn):
    """Each good record of a part as a dict."""

    _in_columns = False

    def __init__(self, name: str, reading: Reading, on_bad_record: OnBadRecord, log: LogEntries | None = None) -> None:
        self._log = log
        self._name = name
        self._reading = reading
        self._on_bad_record = on_bad_record

    def start_bundle(self) -> None:
        self._count = self._bad = 0
        self._examples: list[str] = []

    def process(self, element: Part) -> Iterator[Any]:
        part = element
        reading = self._reading.of_unit(part.file.unit)
        source = SOURCES[part.file.format].rows(part, reading if self._in_columns else None)
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
                good = list(self._good(part, raw, reading))
                if entries is not None:
                    entries.add(len(raw.places), perf_counter_ns() - begin)
                yield from good

    def finish_bundle(self) -> Iterator[Any]:
        yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, READ, self._count)))
        if self._bad:
            yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, BAD_RECORD, self._bad, tuple(self._examples))))

    def _good(self, part: Part, raw: RawRows, reading: Reading) -> Iterator[Any]:
        return (row for _, row in self._one_by_one(part, raw, reading, range(len(raw.places))))

    def _one_by_one(self, part: Part, raw: RawRows, reading: Reading, chosen: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the dict of each of the records that has no fault."""
        for n in chosen:
            row = raw.row(n)
            fault = row if isinstance(row, str) else reading.fault(row)
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


class _ReadColumns(_ReadDicts):
    """The good records of a part as record batches: first those that are read many at a time, then the others."""

    _in_columns = True

    def _good(self, part: Part, raw: RawRows, reading: Reading) -> Iterator[Any]:
        batch, sure = typed_rows(raw, reading)
        others = ExactRows(reading)
        for n, row in self._one_by_one(part, raw, reading, np.flatnonzero(~sure).tolist()):
            others.add(row, raw.places[n].as_py(), raw.text(n))
        if batch is not None and len(batch):
            yield batch
        if len(others):
            yield others.batch()


def _sentence(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "is cut off"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)
