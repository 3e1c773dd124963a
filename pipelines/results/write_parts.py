"""Writes sorted parts of results in a pipeline, and a report that lists the parts that count."""

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns, time_ns
from typing import Any, Final, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_joins.errors import OutputError
from beam_joins.pipelines.base.call_once import CallOnce
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import remove, require_seen
from beam_joins.pipelines.results.counts import Tally, at_bundle_end
from beam_joins.pipelines.results.figure import Figure
from beam_joins.pipelines.results.output_files import Output
from beam_joins.pipelines.results.sorted_output import Encode, ordered, write_pieces
from beam_joins.transforms.connect.files import open_file, write_whole
from beam_joins.transforms.connect.runs import KeptSignatures

_SORTED_BYTES: Final = 1 << 25
"""About so many bytes of records are sorted at a time."""
_PIECE_BYTES: Final = 1 << 21
"""So many bytes of records of one element, which are sorted, are a part of their own if parts are merged."""


class WrittenPart(NamedTuple):
    """A file that a bundle has written: the number of its sorted records, the seconds in which they were
    encoded, sorted and written, and when that was, in nanoseconds since 1970.
    """

    output: str
    path: str
    records: int
    seconds: float = 0.0
    at: int = 0


@dataclass(frozen=True)
class Report:
    """The report of the workers of a run: counts, written parts, figures."""

    tallies: list[Tally]
    parts: list[WrittenPart]
    figures: Sequence[Figure] = ()

    def parts_of(self, outputs: Sequence[Output]) -> dict[str, list[str]]:
        """The paths of each output's parts, in order."""
        return {output.name: sorted(part.path for part in self.parts if part.output == output.name) for output in outputs}


class WriteParts(KeptSignatures):
    """Elements, as records that ``encode`` makes of each (as the output does by default), into sorted parts in the
    directory; gives a :class:`WrittenPart` for each.

    A part that a failed bundle left is never named. Parts are for
    :func:`~beam_joins.pipelines.results.sorted_output.merge`, but of an output that stays in parts in its own format.
    """

    def __init__(self, output: Output, directory: str, encode: Encode | None = None) -> None:
        self._output = output
        self._directory = directory
        self._encode = encode or output.encode
        self._merged = not output.in_parts
        self._nanoseconds = 0

    def start_bundle(self) -> None:
        """Begin with no records."""
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0

    def process(self, element: Any) -> Iterator[WrittenPart]:
        """Take the records of an element, and write those that are many."""
        yield from self._timed(self._parts_of(element))

    def finish_bundle(self) -> Iterator[Any]:
        """Write the others."""
        yield from map(at_bundle_end, self._timed(self._written()))

    def _timed(self, parts: Iterator[WrittenPart]) -> Iterator[WrittenPart]:
        """The parts, each with the time since the one before."""
        while True:
            begin = perf_counter_ns()
            part = next(parts, None)
            self._nanoseconds += perf_counter_ns() - begin
            if part is None:
                return
            yield part._replace(seconds=self._nanoseconds / 1e9, at=time_ns())
            self._nanoseconds = 0

    def _parts_of(self, element: Any) -> Iterator[WrittenPart]:
        for rows in self._encode(element):
            if self._merged and rows.nbytes >= _PIECE_BYTES:
                yield from self._pieces(pa.Table.from_batches([rows]))
                continue
            self._rows.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= _SORTED_BYTES:
                yield from self._written()

    def _written(self) -> Iterator[WrittenPart]:
        if not self._rows:
            return
        rows = ordered(pa.Table.from_batches(self._rows))
        self.start_bundle()
        yield from self._pieces(rows)

    def _pieces(self, rows: pa.Table) -> Iterator[WrittenPart]:
        name = self._output.name
        with _writing(self._output.path, self._directory):
            parts = write_pieces(rows, name, self._directory) if self._merged else [self._as_it_is(rows)]
            yield from (WrittenPart(name, path, records) for path, records in parts)

    def _as_it_is(self, rows: pa.Table) -> tuple[str, int]:
        # parts are numbered in the order of their first records; the output's own name says how to compress
        first = rows["position"][0].as_py() + (1 << 63) if len(rows) else 0
        name = f"{first:020d}-{uuid.uuid4().hex}-{self._output.name}-{os.path.basename(self._output.path)}"
        path = os.path.join(self._directory, name)
        writer = None
        try:
            writer = self._output.create(path)
            for records in rows["record"].chunks:
                writer.write(records)
            writer.close()
        except BaseException:
            if writer is not None:
                with suppress(Exception):
                    writer.close()
            remove(path)  # so that a full disk has room again
            raise
        return path, len(rows)


class WriteReport(beam.PTransform[Any, Any]):
    """Writes collections of :class:`Tally`, :class:`WrittenPart` and :class:`Figure` into one small file,
    which exists only if the whole pipeline has run.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def expand(self, facts: Any) -> Any:
        """Apply the transform."""
        return facts | "Write" >> CallOnce(partial(_write_report, self._path), None, each=_as_line)


def read_report(path: str) -> Report:
    """Reads the report of :class:`WriteReport`. Raises OSError if there is none."""
    tallies, parts, figures = list[Tally](), list[WrittenPart](), list[Figure]()
    with open_file(path) as file:
        for line in file.read().decode().splitlines():
            kind, fields = json.loads(line)
            if kind == WrittenPart.__name__:
                parts.append(WrittenPart(*fields))
            elif kind == Figure.__name__:
                figures.append(Figure(*fields))
            else:
                place, what, count, examples = fields
                tallies.append(Tally(place, what, count, tuple(examples)))
    return Report(tallies, parts, figures)


@contextmanager
def _writing(path: str, directory: str) -> Iterator[None]:
    """Turns errors of the block into OutputErrors, and a local directory that this machine does not see."""
    try:
        require_seen(directory)
    except ValueError as error:
        raise OutputError(f"cannot write {path}: {directory} {error}") from None
    with writing(path):
        yield


def _as_line(fact: Tally | WrittenPart | Figure) -> str:
    return json.dumps([type(fact).__name__, fact])


def _write_report(path: str, lines: Iterable[str]) -> tuple[()]:
    with _writing(directory := os.path.dirname(path), directory):
        write_whole(path, "\n".join(lines).encode())
    return ()
