"""Reads files of change events as lines of JSON: the row, with the columns that the envelope adds."""

import io
import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import pyarrow as pa

from beam_joins.pipelines.formats.changelog_columns import LEFT_OUT, LIFE, LOG, OPERATION, ORDER, POSITION, TIME, Columns, Unit
from beam_joins.pipelines.formats.csv_schema import Layout
from beam_joins.pipelines.formats.envelopes.row_change import INSERT, UPSERT, Envelope, RowChange, require_one_table
from beam_joins.pipelines.formats.file_parts import File, FormatReader, Part
from beam_joins.pipelines.formats.json_lines import BYTE_ORDER_MARK, JsonLinesReader, json_rows
from beam_joins.pipelines.formats.line_files import whole_lines
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.exact_json import object_of
from beam_joins.tables.key_handover import Life
from beam_joins.transforms.connect.tables import IN_TIME
from beam_joins.values.schema_evolution import narrowing

_NO_ROW: Final = b"null"


class Marked(NamedTuple):
    """Rows as JSON texts with the columns that envelopes add, their places, the faults of some, and the
    number of skipped events by kind.
    """

    texts: list[bytes]
    places: list[int]
    faults: dict[int, str]
    skipped: Counter[str]


class Enveloped(FormatReader):
    """Reads files of envelopes, beside the reader of the format that they are written in, which cuts them."""

    options: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _envelope(self, file: File) -> Envelope:
        """The interpreter of the items of a file."""

    @abstractmethod
    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        """The lines or records of a part, each with its place, some at a time."""

    def described(self, file: File, columns: Columns, remembered: Layout) -> File:
        """The file: its envelopes describe themselves."""
        return file

    def schema(self, file: File) -> pa.Schema | None:
        """None: the columns of the rows are not those of the file."""
        return None

    def keeps_texts(self, file: File) -> bool:
        """It does: rows are JSON within the envelopes."""
        return True

    def unit(self, file: File, column: str) -> Unit | None:
        """The unit of the envelopes' times."""
        return "us"

    def types(self, file: File) -> list[tuple[str, str]]:
        """None: those of the rows are not those of the file."""
        return []

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows, with the columns that envelopes add."""
        rows = (object_of(marked_text(change, 0)) for change in self.changes(file))
        return (row for row in rows if isinstance(row, dict))

    def changes(self, file: File) -> Iterator[RowChange]:
        """The changes of a whole file; bad records are left out."""
        return (change for change in self._changes_or_faults(file) if not isinstance(change, str))

    def has_faults(self, file: File) -> bool:
        """Whether there is a bad record, of the table that is meant or of none that can be told."""
        return any(isinstance(change, str) for change in self._changes_or_faults(file))

    def _changes_or_faults(self, file: File) -> Iterator[RowChange | str]:
        envelope = self._envelope(file)
        for _, item in itertools.chain.from_iterable(self._looked_at(file)):
            changes = changes_of(envelope, item)
            yield from [changes] if isinstance(changes, str) else changes

    def _looked_at(self, file: File) -> Iterator[list[tuple[int, Any]]]:
        """The items of a whole file, or of the part that may be looked at."""
        return self._items(Part(0, file, 0, file.look_bytes))

    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The changes of a part, some at a time."""
        for texts, places, faults, skipped in self.marked(part, None if plan is None else plan.expected):
            rows = json_rows(b"\n".join(texts), 0, plan)
            if rows is not None:
                yield rows._replace(places=pa.array(places), row=_with_faults(rows.row, faults), skipped=skipped)
            elif skipped:
                yield RawRows(pa.array([], pa.int64()), lambda n: {}, skipped=skipped)

    def marked(self, part: Part, expected: pa.Schema | None = None) -> Iterator[Marked]:
        """The rows with what the envelopes say of them, and their places; a row
        whose envelope says other types than ``expected`` has a fault.

        Raises ValueError where the rows are of several tables.
        """
        envelope = self._envelope(part.file)
        types, tables = _Types(expected), set[str]()
        for some in self._items(part):
            marked = Marked([], [], {}, Counter())
            for place, item in some:
                changes = changes_of(envelope, item)
                for number, change in enumerate([changes] if isinstance(changes, str) else changes):
                    fault = change if isinstance(change, str) else types.fault(change)
                    if fault is not None:
                        marked.faults[len(marked.texts)] = fault
                    if fault is not None or isinstance(change, str):
                        marked.texts.append(_NO_ROW)
                    else:
                        marked.texts.append(marked_text(change, place))
                        tables.add(change.table)
                    marked.places.append(place + number)
            require_one_table(part.file.table, tables)
            marked.skipped.update(envelope.skipped)
            envelope.skipped.clear()
            yield marked


class EnvelopeLines(Enveloped, JsonLinesReader):
    """Envelopes as lines of JSON."""

    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        for place, data in whole_lines(part):
            lines = list(io.BytesIO(data))  # a line may have a carriage return between its members
            texts = [line.strip() for line in lines]
            if not part.start + place and texts:
                texts[0] = texts[0].removeprefix(BYTE_ORDER_MARK)
            begins = itertools.accumulate(map(len, lines), initial=part.first_place + place)
            yield list(zip(begins, texts, strict=False))


class _Types:
    """Compares the column types of envelopes with the expected ones, which have to hold their values."""

    def __init__(self, expected: pa.Schema | None) -> None:
        self._expected = expected
        self._same: list[pa.Schema] = []

    def fault(self, change: RowChange) -> str | None:
        """The difference of a change's columns and types from those expected, in a sentence, or None."""
        schema = change.types
        if self._expected is None or schema is None or any(schema is same for same in self._same):
            return None
        for field in schema:
            if field.name not in self._expected.names:
                return f"a column '{field.name}' that the first changes did not have: say with schema= which columns there are"
            expected = self._expected.field(field.name).type
            if narrowing(field.type, expected) is not None:
                return f"column '{field.name}' is {field.type} here, and {expected} in the first changes: say with schema= what it is"
        self._same.append(schema)
        return None


def _with_faults(row: Callable[[int], dict[str, Any] | str], faults: dict[int, str]) -> Callable[[int], dict[str, Any] | str]:
    return lambda n: faults.get(n) or row(n)


def changes_of(envelope: Envelope, item: Any) -> list[RowChange | str] | str:
    """The changes of a line or record, each or all replaced by the reason if they are bad."""
    try:
        changes = list(envelope.changes(item)) if item else []
    except msgspec.ValidationError as error:
        return f"no envelope of this format: {error}"
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error)
    return [_checked(change) for change in changes]


def _checked(change: RowChange | str) -> RowChange | str:
    return change if isinstance(change, str) or change.row.startswith(b"{") else f"a row that is no object: {change.row[:40]!r}"


def marked_text(change: RowChange, place: int) -> bytes:
    """The JSON text of a row with the columns that its envelope adds."""
    order = place if change.order is None else change.order
    # what only its place in the file orders is another change when it is sent again, known by its row
    again = change.order is None
    arrives = change.operation == INSERT and bool(change.after or not again)
    life = Life(arrives, change.before, change.after, change.transaction, again, change.alone)
    left_out = msgspec.json.encode(change.unchanged).decode() if change.unchanged else None
    members = {
        OPERATION: UPSERT if change.operation == INSERT else change.operation,
        TIME: change.time,
        POSITION: change.position,
        ORDER: order,
        LOG: None if change.log is None else f"{IN_TIME}{change.log}",
        LEFT_OUT: left_out,
        LIFE: life.text(),
    }
    row = change.row[1:].lstrip()
    return msgspec.json.encode(members)[:-1] + (b"" if row.startswith(b"}") else b",") + row
