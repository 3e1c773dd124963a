"""Files with changes in envelopes, read as lines of JSON with the rows themselves and what the envelopes say of them."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from apache_beam.metrics import Metrics

from beam_joins.pipelines.changelog_files.columns import OPERATION, ORDER, POSITION, TIME, Unit
from beam_joins.pipelines.changelog_files.envelopes.row_change import Envelope, RowChange
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.json_rows import json_rows
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

_NO_ROW: Final = b"null"


class Marked(NamedTuple):
    """The JSON texts of rows with columns for what their envelopes say, their places, and what is wrong with some of them."""

    texts: list[bytes]
    places: list[int]
    faults: dict[int, str]


class Enveloped(ABC):
    """How files of envelopes are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`, but for where their parts begin and end."""

    @abstractmethod
    def _envelope(self, file: File) -> Envelope:
        """What understands the items of a file."""

    @abstractmethod
    def _items(self, part: Part) -> Iterator[list[tuple[int, Any]]]:
        """The lines or records of a part, each with its place, some at a time."""

    def unit(self, file: File, column: str) -> Unit | None:
        """What the envelopes' times are given in."""
        return "us"

    def types(self, file: File) -> list[tuple[str, str]]:
        """None: those of the rows are not those of the file."""
        return []

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows with what the envelopes say of them."""
        rows = (object_of(marked_text(change, 0)) for change in self.changes(file))
        return (row for row in rows if isinstance(row, dict))

    def changes(self, file: File) -> Iterator[RowChange]:
        """The changes of a whole file; what is none is left out."""
        envelope = self._envelope(file)
        for _, item in itertools.chain.from_iterable(self._items(Part(0, file, 0, file.look_bytes))):
            found = changes_of(envelope, item)
            yield from () if isinstance(found, str) else found

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The changes of a part, some at a time."""
        for texts, places, faults in self.marked(part):
            rows = json_rows(b"\n".join(texts), 0, reading)
            if rows is not None:
                yield rows._replace(places=pa.array(places), row=_with_faults(rows.row, faults))

    def marked(self, part: Part, expected: pa.Schema | None = None) -> Iterator[Marked]:
        """The rows with what the envelopes say of them; a row whose envelope says other types than ``expected`` has a fault."""
        envelope = self._envelope(part.file)
        types = _Types(expected)
        for some in self._items(part):
            found = Marked([], [], {})
            for place, item in some:
                changes = changes_of(envelope, item)
                fault = changes if isinstance(changes, str) else next(filter(None, map(types.fault, changes)), None)
                if fault is not None or isinstance(changes, str):
                    found.faults[len(found.texts)] = fault or ""
                    found.texts.append(_NO_ROW)
                    found.places.append(place)
                else:
                    found.texts.extend(marked_text(change, place) for change in changes)
                    found.places.extend(range(place, place + len(changes)))
            yield found
            count_skipped(envelope)


class _Types:
    """Compares what envelopes say of the columns of rows with what is expected."""

    def __init__(self, expected: pa.Schema | None) -> None:
        self._expected = expected
        self._same: list[pa.Schema] = []

    def fault(self, change: RowChange) -> str | None:
        """What is other than expected, or None."""
        said = change.types
        if self._expected is None or said is None or any(said is same for same in self._same):
            return None
        for field in said:
            if field.name not in self._expected.names:
                return f"a column '{field.name}' that the first changes did not have: say with schema= which columns there are"
            if self._expected.field(field.name).type != field.type:
                return (
                    f"column '{field.name}' is {field.type} here, and {self._expected.field(field.name).type} in the first changes: say with"
                    " schema= what it is"
                )
        self._same.append(said)
        return None


def _with_faults(row: Callable[[int], dict[str, Any] | str], faults: dict[int, str]) -> Callable[[int], dict[str, Any] | str]:
    return lambda n: faults.get(n) or row(n)


def count_skipped(envelope: Envelope) -> None:
    """Count what was about no row by what it is: ``skipped_transaction_metadata`` and others, in the namespace ``beam_joins``."""
    for what, count in envelope.skipped.items():
        Metrics.counter("beam_joins", f"skipped_{what}").inc(count)
    envelope.skipped.clear()


def changes_of(envelope: Envelope, item: Any) -> list[RowChange] | str:
    """The changes that a line or record has, or what is wrong with it."""
    try:
        found = list(envelope.changes(item)) if item else []
    except msgspec.ValidationError as error:
        return f"no envelope of this format: {error}"
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error)
    return next((f"a row that is no object: {change.row[:40]!r}" for change in found if not change.row.startswith(b"{")), found)


def marked_text(change: RowChange, place: int) -> bytes:
    """The row with columns for what its envelope says."""
    order = place if change.order is None else change.order
    said = {OPERATION: change.operation, TIME: change.time, POSITION: change.position, ORDER: order}
    row = change.row[1:].lstrip()
    return msgspec.json.encode(said)[:-1] + (b"" if row.startswith(b"}") else b",") + row
