"""Notes: the kinds of keys, the columns and the logs that bundles of a routing stage have seen in their
input, sent to the first partition of a replay.

A partition has only its own rows. Whether the keys of two inputs can be equal, or whether any record has a
column that an option names, depends on all rows: each bundle notes the kinds of keys or the columns that it
has seen, and the first partition checks all notes.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins.errors import InputError
from beam_joins.transforms.engine.blocks.log_spans import IN_TIME, NOTES, begun_again

Notes = Mapping[str, set[str]]
"""The notes on each input, by its name."""

Check = Callable[[Notes], None]
"""Raises ``ValueError`` if the notes say that the result cannot be right."""

_PARTS = re.compile("[(), ]+")
_MARK = b"\x00"  # no Arrow stream begins with it
_LOG = "log: "
"""Begins a note of a log, among the notes of columns."""
_OF_LOGS = (_LOG, *NOTES)


def write_note(to: str, noted: Iterable[str]) -> bytes:
    """A note on the input ``to``, which travels as a block does."""
    return _MARK + json.dumps([to, sorted(noted)]).encode()


def read_note(element: bytes) -> tuple[str, list[str]] | None:
    """The name of the input and the notes on it; ``None`` for a block.

    >>> read_note(write_note("left", {"text"})), read_note(b"rows")
    (('left', ['text']), None)
    """
    if not element.startswith(_MARK):
        return None
    to, noted = json.loads(element[len(_MARK) :])
    return to, noted


def with_note(written: bytes | None, note: tuple[str, Iterable[str]]) -> tuple[bytes, Notes] | None:
    """All that was noted, as it is remembered and as a check gets it; ``None`` if the note says nothing new. Spans of logs are
    left out: bundles of a stream that come in any order show nothing of these.

    >>> written, noted = with_note(None, ("left", ["text"]))
    >>> noted, with_note(written, ("left", ["text"]))
    ({'left': {'text'}}, None)
    """
    notes = {to: set(noted) for to, noted in json.loads(written or b"{}").items()}
    to, new = note[0], {each for each in note[1] if not each.startswith(NOTES)}
    if notes.get(to, set()).issuperset(new):
        return None
    notes.setdefault(to, set()).update(new)
    return json.dumps({to: sorted(noted) for to, noted in notes.items()}).encode(), notes


class NoteReader:
    """Takes the notes out of the blocks of a partition.

    >>> reader = NoteReader([b"rows", write_note("left", {"text"})])
    >>> list(reader.blocks()), reader.notes
    ([b'rows'], {'left': {'text'}})
    """

    def __init__(self, elements: Iterable[bytes]) -> None:
        self._elements = elements
        self.notes: dict[str, set[str]] = {}

    def blocks(self) -> Iterable[bytes] | None:
        """The blocks that hold rows; ``None`` without any."""
        rows = self._rows()
        first = next(rows, None)
        return None if first is None else chain((first,), rows)

    def _rows(self) -> Iterator[bytes]:
        for element in self._elements:
            if (note := read_note(element)) is None:
                yield element
            else:
                self.notes.setdefault(note[0], set()).update(note[1])


def keys_may_meet(transform: str, left: str, right: str, left_keys: str = "left keys", right_keys: str = "right keys") -> Check:
    """A check that the kinds of keys noted for two inputs have one in common; the words name the keys in the
    message.

    >>> keys_may_meet("TableTableJoin", "left", "right")({"left": {"text"}, "right": {"number"}})  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    beam_joins.errors.InputError: TableTableJoin: the left keys are of kind text, the right keys of
        kind number: they are never equal; convert one of them
    """
    return partial(_require_kinds_meet, transform, left, right, left_keys, right_keys)


def _require_kinds_meet(transform: str, left: str, right: str, left_keys: str, right_keys: str, notes: Notes) -> None:
    one, other = notes.get(left, set()), notes.get(right, set())
    # a null in a tuple stands for any kind
    if one and other and not one & other and not any("null" in _PARTS.split(kind) for kind in one | other):
        raise InputError(
            f"{transform}: the {left_keys} are of kind {' or '.join(sorted(one))}, the {right_keys} of kind"
            f" {' or '.join(sorted(other))}: they are never equal; convert one of them"
        )


def note_columns(noted: set[str], value: Any, looked_for: frozenset[str]) -> None:
    """Note which of the columns looked for a mapping has, and once all of its columns."""
    if isinstance(value, Mapping):
        if not any(not name.startswith(_OF_LOGS) for name in noted):
            noted.update(map(str, value))
        elif not looked_for <= noted:
            noted.update(looked_for & value.keys())


def columns_are_there(option: str, to: str, columns: frozenset[str]) -> Check:
    """A check that every column named by the option was noted; input without records passes.

    >>> columns_are_there("except_columns", "rows", frozenset({"opp"}))({"rows": {"id", "op"}})
    Traceback (most recent call last):
    ValueError: except_columns names opp, which no record has; there are id, op
    """

    def check(notes: Notes) -> None:
        noted = {name for name in notes.get(to, ()) if not name.startswith(_OF_LOGS)}
        missing = sorted(columns - noted)
        if noted and missing:
            raise ValueError(f"{option} names {', '.join(missing)}, which no record has; there are {', '.join(sorted(noted))}")

    return check


def note_logs(noted: set[str], logs: Any) -> None:
    """Note the logs that records are of, which are known where they are not null."""
    distinct = pc.unique(logs).to_pylist() if isinstance(logs, pa.Array | pa.ChunkedArray) else set(logs)
    noted.update(f"{_LOG}{str(log).removeprefix(IN_TIME)}" for log in distinct if log is not None)


def of_one_log(to: str) -> Check:
    """A check that one log was noted at most, and that it has not begun again.

    >>> noted = set[str]()
    >>> note_logs(noted, ["server a", None, "server b"])
    >>> of_one_log("rows")({"rows": noted})  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    beam_joins.errors.InputError: the changes are of several logs (server a; server b), whose positions
        cannot be compared, as after a failover or a change of the server's settings: read what is behind
        the change as a table of its own, beginning with a new snapshot
    """

    def check(notes: Notes) -> None:
        logs = sorted(each.removeprefix(_LOG) for each in notes.get(to, ()) if each.startswith(_LOG))
        if len(logs) > 1:
            raise InputError(
                f"the changes are of several logs ({'; '.join(logs)}), whose positions cannot be compared, as after a "
                "failover or a change of the server's"
                " settings: read what is behind the change as a table of its own, beginning with a new snapshot"
            )
        if (log := begun_again(notes.get(to, ()))) is not None:
            raise InputError(
                f"the log {log} has begun again, as after RESET MASTER or on a server that has taken another one's place: changes "
                "at earlier places in it are later than those that were read before: read what is behind the new beginning as a "
                "table of its own, beginning with a new snapshot"
            )

    return check


def together(*checks: Check | None) -> Check | None:
    """One check that makes all of some; ``None`` for none."""
    required = [check for check in checks if check is not None]

    def check(notes: Notes) -> None:
        for each in required:
            each(notes)

    return check if required else None
