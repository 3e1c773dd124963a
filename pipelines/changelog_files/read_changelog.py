"""Reading a changelog in a pipeline: rows, and a tally of what was read and what was dropped."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from beam_joins.pipelines.changelog_files.avro_records import read_avro
from beam_joins.pipelines.changelog_files.changelog import Changelog, Part, kind
from beam_joins.pipelines.changelog_files.columns import PLACE, key_fault
from beam_joins.pipelines.changelog_files.json_lines import line_number, read_json_lines
from beam_joins.pipelines.changelog_files.tally import EXAMPLES, Tally, at_bundle_end
from beam_joins.pipelines.command.input_error import InputError

OnBadRecord = Literal["fail", "drop"]
TALLIES: Final = "tallies"
READ: Final = "read"
BAD_RECORD: Final = "bad_record"


class Rows(NamedTuple):
    """The rows of a changelog as dicts, and what was counted on the way."""

    rows: PCollection[dict[str, Any]]
    tallies: PCollection[Tally]


class ReadChangelog(beam.PTransform[Any, Any]):
    """The records of a changelog, in no order.

    A bad record is a line that is not a JSON object, or one whose key, time, sequence, operation, ``reference`` (a column with another table's
    key) or ``number`` (a column that is compared) cannot be used, or whose column is not of its kind in ``kinds`` (the words of
    :func:`~beam_joins.pipelines.changelog_files.changelog.kind`), or that has the column ``added``, which is to be added later. It fails the run with an InputError that names the file and the line, or
    is dropped and counted. With ``places`` each row has its place in the files under :data:`PLACE`.
    """

    def __init__(
        self,
        changelog: Changelog,
        *,
        on_bad_record: OnBadRecord = "fail",
        reference: str | None = None,
        number: str | None = None,
        kinds: Mapping[str, str | None] | None = None,
        added: str | None = None,
        places: bool = False,
    ) -> None:
        super().__init__()
        self._changelog = changelog
        self._read = _ReadParts(changelog, on_bad_record, reference, number, kinds or {}, added, places)

    def expand(self, pipeline: Any) -> Any:
        """Apply the transform."""
        parts = pipeline | "Parts" >> beam.Create(self._changelog.parts(), reshuffle=False)
        outputs = parts | "Spread" >> beam.Reshuffle() | "Read" >> beam.ParDo(self._read).with_outputs(TALLIES, main="rows")
        return Rows(outputs["rows"], outputs[TALLIES])


class _ReadParts(beam.DoFn):
    def __init__(
        self,
        changelog: Changelog,
        on_bad_record: OnBadRecord,
        reference: str | None,
        number: str | None,
        kinds: Mapping[str, str | None],
        added: str | None,
        places: bool,
    ) -> None:
        # not the changelog itself: its first records need not travel
        self._name = changelog.name
        self._format = changelog.format
        self._columns = changelog.columns
        self._reference = reference
        self._number = number
        self._added = added
        self._places = places
        self._kinds = [(column, expected) for column, expected in kinds.items() if expected is not None]
        self._on_bad_record = on_bad_record

    def start_bundle(self) -> None:
        self._count = self._bad = 0
        self._examples: list[str] = []

    def process(self, element: Any) -> Iterator[Any]:
        part = Part(*element)
        records = self._records(part)
        while True:
            try:
                place, row = next(records)
            except StopIteration:
                return
            except (OSError, EOFError, ValueError) as error:
                raise InputError(f"{self._name}: {part.shown} {_sentence(error)}") from error
            self._count += 1
            fault = row if isinstance(row, str) else self._fault(row)
            if fault is None:
                if self._places:
                    row[PLACE] = (part.file, part.start, place)
                yield row
            else:
                self._drop(part, place, fault)

    def finish_bundle(self) -> Iterator[Any]:
        yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, READ, self._count)))
        if self._bad:
            yield TaggedOutput(TALLIES, at_bundle_end(Tally(self._name, BAD_RECORD, self._bad, tuple(self._examples))))

    def _records(self, part: Part) -> Iterator[tuple[int, Any]]:
        if self._format == "avro":
            return read_avro(part.path, part.start, part.stop)
        return read_json_lines(part.path, part.start, part.stop)

    def _fault(self, row: dict[str, Any]) -> str | None:
        fault = self._columns.fault(row)
        if fault is None and self._reference is not None:
            fault = key_fault(self._reference, row.get(self._reference))
        if (
            fault is None
            and self._number is not None
            and not isinstance(number := row.get(self._number), int | float | Decimal | None)
        ):
            fault = f"column '{self._number}' is not a number: {number!r}"
        if fault is None and self._added is not None and self._added in row:
            fault = f"there is a column '{self._added}' already: give the customer another name with --customer-field"
        return fault or next(filter(None, (_kind_fault(row, column, expected) for column, expected in self._kinds)), None)

    def _drop(self, part: Part, place: int, fault: str) -> None:
        if self._on_bad_record == "drop":
            self._bad += 1
            if len(self._examples) >= EXAMPLES:
                return
        where = f"record {place}" + (f" after byte {part.start:,}" if part.start else "")
        if self._format == "json lines":
            where = f"line {line_number(part.path, place):,}"
        sentence = f"{self._name}: {part.shown}, {where}: {fault}"
        if self._on_bad_record == "fail":
            raise InputError(f"{sentence} (--on-bad-record=drop goes on without such records)")
        self._examples.append(sentence)


def _kind_fault(row: dict[str, Any], column: str, expected: str) -> str | None:
    value = row.get(column)
    if value is None or kind(value) == expected:
        return None
    return f"column '{column}' holds {expected}, but here {kind(value)}: {value!r}"


def _sentence(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "is cut off"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)
