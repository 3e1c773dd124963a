"""Lines of JSON with changes in envelopes, read as lines of JSON with the rows themselves and what the envelopes say of them."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.columns import OPERATION, ORDER, POSITION, TIME, Unit
from beam_joins.pipelines.changelog_files.envelopes.row_change import Envelope, RowChange
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.json_lines import JsonLines
from beam_joins.pipelines.changelog_files.json_rows import json_rows
from beam_joins.pipelines.changelog_files.lines import lines_of, whole_lines
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

_NO_ROW: Final = b"null"


class Marked(NamedTuple):
    """The JSON texts of rows with columns for what their envelopes say, their places, and what is wrong with some of them."""

    texts: list[bytes]
    places: list[int]
    faults: dict[int, str]


class EnvelopeLines(JsonLines):
    """How files of envelopes are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`.

    ``envelope`` makes a reader, given the columns of the key and the table. ``whole``: a line is understood only after those before it.
    """

    def __init__(self, envelope: Callable[[tuple[str, ...], str], Envelope], *, whole: bool = False) -> None:
        self._envelope = envelope
        self._whole = whole

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes, or not at all."""
        return [(0, 0)] if self._whole else super().cuts(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """What the envelopes' times are given in."""
        return "us"

    def key_of(self, file: File) -> tuple[str, ...]:
        """The columns of the primary key as the first change of the file's table says, none where that does not or there is none."""
        return next((change.key for change in self._changes(file)), ())

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows with what the envelopes say of them."""
        rows = (object_of(_marked(change)) for change in self._changes(file))
        return (row for row in rows if isinstance(row, dict))

    def _changes(self, file: File) -> Iterator[RowChange]:
        envelope = self._envelope(file.key, file.table)
        for line in lines_of(file):
            found = _read(envelope, line.strip())
            yield from () if isinstance(found, str) else found

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The changes of a part's lines, some lines at a time."""
        for texts, places, faults in self.marked(part):
            rows = json_rows(b"\n".join(texts), 0, reading)
            if rows is not None:
                yield rows._replace(places=pa.array(places), row=_with_faults(rows.row, faults))

    def marked(self, part: Part) -> Iterator[Marked]:
        """The rows with what the envelopes say of them."""
        envelope = self._envelope(part.file.key, part.file.table)
        for place, data in whole_lines(part):
            found = Marked([], [], {})
            at = part.first_place + place
            for line in data.splitlines(keepends=True):
                changes = _read(envelope, line.strip())
                if isinstance(changes, str):
                    found.faults[len(found.texts)] = changes
                    found.texts.append(_NO_ROW)
                    found.places.append(at)
                else:
                    found.texts.extend(map(_marked, changes))
                    found.places.extend(range(at, at + len(changes)))
                at += len(line)
            yield found


def _with_faults(row: Callable[[int], dict[str, Any] | str], faults: dict[int, str]) -> Callable[[int], dict[str, Any] | str]:
    return lambda n: faults.get(n) or row(n)


def _read(envelope: Envelope, line: bytes) -> list[RowChange] | str:
    """The changes that a line has, or what is wrong with it."""
    if not line:
        return []
    try:
        found = list(envelope.changes(line))
    except msgspec.ValidationError as error:
        return f"no envelope of this format: {error}"
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error)
    return next((f"a row that is no object: {change.row[:40]!r}" for change in found if not change.row.startswith(b"{")), found)


def _marked(change: RowChange) -> bytes:
    """The row with columns for what its envelope says."""
    said = {OPERATION: change.operation, TIME: change.time, POSITION: change.position, ORDER: change.order}
    row = change.row[1:].lstrip()
    return msgspec.json.encode(said)[:-1] + (b"" if row.startswith(b"}") else b",") + row
