"""Lines of JSON with changes in envelopes, read as lines of JSON with the rows themselves and what the envelopes say of them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from beam_joins.pipelines.changelog_files.columns import OPERATION, ORDER, POSITION, TIME, Unit
from beam_joins.pipelines.changelog_files.envelopes.row_change import Envelope, RowChange
from beam_joins.pipelines.changelog_files.exact_json import object_of
from beam_joins.pipelines.changelog_files.files import File, Part
from beam_joins.pipelines.changelog_files.json_lines import JsonLines
from beam_joins.pipelines.changelog_files.json_rows import json_rows
from beam_joins.pipelines.changelog_files.lines import lines_of, open_lines, whole_lines
from beam_joins.pipelines.changelog_files.raw_rows import RawRows
from beam_joins.pipelines.changelog_files.reading import Reading

_NO_ROW: Final = b"null"


class EnvelopeLines(JsonLines):
    """How files of envelopes are read: a :class:`~beam_joins.pipelines.changelog_files.files.Source`.

    ``envelope`` makes a reader, given the column of the key. ``whole``: a line is understood only after those before it.
    """

    def __init__(self, envelope: Callable[[str | None], Envelope], *, whole: bool = False) -> None:
        self._envelope = envelope
        self._whole = whole

    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """By bytes, or not at all."""
        return [(0, 0)] if self._whole else super().cuts(file, size)

    def unit(self, file: File, column: str) -> Unit | None:
        """What the envelopes' times are given in."""
        return "us"

    def key_of(self, file: File) -> tuple[str, ...]:
        """The columns of the primary key as the first change of the file's table says, none where none does."""
        return next((change.key for change in self._changes(file)), ())

    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The rows with what the envelopes say of them."""
        rows = (object_of(_marked(change)) for change in self._changes(file))
        return (row for row in rows if isinstance(row, dict))

    def _changes(self, file: File) -> Iterator[RowChange]:
        envelope = self._envelope(file.key)
        with open_lines(file.path) as lines:
            for line in lines_of(lines):
                found = _read(envelope, line.strip(), file.table)
                yield from () if isinstance(found, str) else found

    def rows(self, part: Part, reading: Reading | None) -> Iterator[RawRows]:
        """The changes of a part's lines, some lines at a time."""
        envelope = self._envelope(part.file.key)
        for place, data in whole_lines(part):
            texts, places, faults = list[bytes](), list[int](), dict[int, str]()
            at = part.first_place + place
            for line in data.splitlines(keepends=True):
                found = _read(envelope, line.strip(), part.file.table)
                if isinstance(found, str):
                    faults[len(texts)] = found
                    texts.append(_NO_ROW)
                    places.append(at)
                else:
                    texts += map(_marked, found)
                    places += range(at, at + len(found))
                at += len(line)
            rows = json_rows(b"\n".join(texts), 0, reading)
            if rows is not None:
                yield rows._replace(places=pa.array(places), row=_with_faults(rows.row, faults))


def _with_faults(row: Callable[[int], dict[str, Any] | str], faults: dict[int, str]) -> Callable[[int], dict[str, Any] | str]:
    return lambda n: faults.get(n) or row(n)


def _read(envelope: Envelope, line: bytes, table: str) -> list[RowChange] | str:
    """The changes of a table that a line has, or what is wrong with it."""
    if not line:
        return []
    try:
        found = [change for change in envelope.changes(line) if not table or table in (change.table, change.table.rpartition(".")[2])]
    except msgspec.ValidationError as error:
        return f"no envelope of this format: {error}"
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    except ValueError as error:
        return str(error)
    return next((f"a row that is no object: {change.row[:40]!r}" for change in found if not change.row.startswith(b"{")), found)


def _marked(change: RowChange) -> bytes:
    """The row with columns for what its envelope says."""
    said = {OPERATION: change.operation, TIME: change.time, POSITION: change.position, ORDER: change.order}
    row = change.row[1:].lstrip()
    return msgspec.json.encode(said)[:-1] + (b"" if row.startswith(b"}") else b",") + row
