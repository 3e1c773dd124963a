"""Writing in a pipeline: one file a bundle, and a report that says which of them count."""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import xxhash
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.changelog_files.avro_records import AvroWriter
from beam_joins.pipelines.changelog_files.json_lines import JsonLinesWriter
from beam_joins.pipelines.changelog_files.lines import content_of
from beam_joins.pipelines.changelog_files.outputs import Output
from beam_joins.pipelines.changelog_files.paths import remove
from beam_joins.pipelines.changelog_files.tally import Tally, at_bundle_end
from beam_joins.pipelines.command.input_error import writing
from beam_joins.pipelines.command.watched_run import Watched
from beam_joins.pipelines.report.figure import Figure


class WrittenPart(NamedTuple):
    """A file that a bundle has written, with so many records."""

    output: str
    path: str
    records: int


class Report(NamedTuple):
    """What a run brought home."""

    tallies: list[Tally]
    parts: list[WrittenPart]
    figures: Sequence[Figure] = ()
    watched: Watched | None = None

    def parts_of(self, outputs: Sequence[Output]) -> dict[str, list[str]]:
        """The paths of each output's parts, in order."""
        return {output.name: sorted(part.path for part in self.parts if part.output == output.name) for output in outputs}


def _encoded_already(records: pa.Array, output: Output) -> Iterator[pa.Array]:
    yield records


class WriteParts(beam.DoFn):
    """Elements, as records that ``encode`` makes of each, into one file a bundle in the directory; gives a :class:`WrittenPart` for each file.

    A file that a failed bundle left is never named. ``encode`` gives arrays of records as the output's format has them; by default elements are such arrays.
    ``by_content``: one file an element, with a name that begins with the checksum of its first array, so that their order does not depend on bundles.
    """

    def __init__(
        self,
        output: Output,
        directory: str,
        encode: Callable[[Any, Output], Iterator[pa.Array]] = _encoded_already,
        *,
        by_content: bool = False,
    ) -> None:
        self._output = output
        self._directory = directory
        self._encode = encode
        self._by_content = by_content

    def start_bundle(self) -> None:
        """Begin with no file."""
        self._writer: AvroWriter | JsonLinesWriter | None = None
        self._records = 0

    def process(self, element: Any) -> Iterator[WrittenPart]:
        """Write the records of an element."""
        for records in self._encode(element, self._output):
            with self._whole():
                if self._writer is None:
                    # the output's own name comes last, since its suffix says how to compress
                    content = f"{xxhash.xxh3_64_hexdigest(content_of(records))}-" if self._by_content else ""
                    name = f"{content}{uuid.uuid4().hex}-{self._output.name}-{os.path.basename(self._output.path)}"
                    self._path = os.path.join(self._directory, name)
                    self._writer = self._output.create(self._path)
                self._writer.write(records)
            self._records += len(records)
        if self._by_content and self._writer is not None:
            yield self._closed()

    def finish_bundle(self) -> Iterator[Any]:
        """Close the file and name it."""
        if self._writer is not None:
            yield at_bundle_end(self._closed())

    def _closed(self) -> WrittenPart:
        with self._whole():
            if self._writer is not None:
                self._writer.close()
        part = WrittenPart(self._output.name, self._path, self._records)
        self._writer, self._records = None, 0
        return part

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """If the block fails nothing of this bundle is left, so that a full disk has room again."""
        try:
            with writing(self._output.path):
                yield
        except BaseException:
            if self._writer is not None:
                with suppress(OSError):
                    self._writer.close()
                remove(self._path)
            raise


class WriteReport(beam.PTransform[Any, Any]):
    """Collections of :class:`Tally`, :class:`WrittenPart` and :class:`Figure` into one small file; it is there only if all that leads to it has run."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def expand(self, facts: Any) -> Any:
        """Apply the transform."""
        begin = facts[0].pipeline | "Begin" >> beam.Create([_as_line(Tally("", "", 0))], reshuffle=False)
        return (
            (*(each | f"Lines {n}" >> beam.Map(_as_line) for n, each in enumerate(facts)), begin)
            | "All" >> beam.Flatten()
            | beam.GroupByKey()
            | "Write" >> beam.Map(_write_report, self._path)
        )


def read_report(path: str) -> Report:
    """What :class:`WriteReport` has written. Raises OSError if it has not."""
    tallies, parts, figures = list[Tally](), list[WrittenPart](), list[Figure]()
    with FileSystems.open(path) as file:
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


def _as_line(fact: Tally | WrittenPart | Figure) -> tuple[int, str]:
    return 0, json.dumps([type(fact).__name__, fact])


def _write_report(lines_of_all: tuple[int, Iterable[str]], path: str) -> None:
    part = f"{path}.{uuid.uuid4().hex}"
    with writing(os.path.dirname(path)):
        with FileSystems.create(part) as file:
            file.write("\n".join(lines_of_all[1]).encode())
        FileSystems.rename([part], [path])
