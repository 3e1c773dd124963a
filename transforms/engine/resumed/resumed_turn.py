"""A partition of a run that goes on: it reads the snapshot of the last run, has its turn, and writes the next
one.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from beam_joins.coders.snapshot import Described, Snapshot, read_snapshot, write_snapshot
from beam_joins.columns.sorting import combine_chunks
from beam_joins.errors import StateRefused
from beam_joins.tables.key_handover import ARRIVES
from beam_joins.tables.unchanged import UNCHANGED
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.metrics import count_state
from beam_joins.transforms.engine.blocks.observed_kinds import read_note, write_note
from beam_joins.transforms.engine.resumed.ended_turns import EndedTurns
from beam_joins.transforms.engine.resumed.manifest import (
    IN_BRACKETS,
    STORED_OR_NOT,
    DescribedPart,
    TurnEnded,
    common_columns,
    largest,
    now_named,
    schema_text,
    text_schema,
)
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from beam_joins.transforms.engine.resumed.state_parts import StateParts
from beam_joins.transforms.engine.turns.operator import Operator, Turn, largest_of
from beam_joins.transforms.engine.turns.partition_turn import PartitionTurn
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace
from beam_joins.values.schema_evolution import narrowing

BEGUN = "begun"
"""The file that a run has in its folder from its beginning on."""


class Memory(NamedTuple):
    """The state of a transform after its last run, for the workers; the fields are those of
    :class:`~beam_joins.transforms.engine.resumed.manifest.Remembered`.

    ``prefix`` begins the names of the files that they write. ``types`` are the columns of the inputs whose rows the state has, of
    those that may get wider, in this run: stored rows get those types.
    """

    files: StateFiles
    turns: EndedTurns
    prefix: str
    label: str
    frontier: int | None
    horizon: int | None
    columns: Mapping[str, str]
    notes: Mapping[str, list[str]]
    partitions: Mapping[str, Sequence[DescribedPart]]
    forgotten: int | None = None
    types: Mapping[str, pa.Schema] = {}

    def as_now(self, place: int, table: pa.Table) -> pa.Table:
        """A table of the state, whose columns have the types of this run."""
        types = list(self.types.values())
        if not types:
            return table
        now = types[min(place, len(types) - 1)]
        if "group" in now.names and "group" not in table.column_names:  # rows of groups, by which they are keyed
            key, at = now.field("group").with_name("key"), now.get_field_index("key")
            now = now.append(key) if at < 0 else now.set(at, key)
        return widened_rows(_now_named(table, now), now, self.label)

    def require_begun(self) -> None:
        """Raise :class:`StateRefused` where a worker does not see the files that the run has written."""
        if self.turns.are_here:
            return
        if not self.files.exists(name := f"{self.prefix.rpartition('/')[0]}/{BEGUN}"):
            raise StateRefused(
                f"{self.files.path(name)} is not there: all workers must reach the folder of a state by the same path, and nobody may "
                "remove files there"
            )

    @property
    def elements(self) -> list[tuple[int, bytes]]:
        """An element without rows for each partition that remembers something, so that it has a turn."""
        return [(int(partition), write_note("", ())) for partition in self.partitions]


class _Seen(NamedTuple):
    """The state of an operator, the largest position of a delete that it has forgotten, and the largest position and
    timestamp and the columns of the rows that it got.
    """

    state: Any
    forgotten: int | None
    position: int | None
    timestamp: int | None
    columns: dict[str, pa.Schema]


def observed(operator: Operator, memory: Memory) -> Operator:
    """The operator, for a :class:`ResumedTurn`: its rows have the columns of the runs before."""
    return partial(_observed, operator, memory)


def _observed(
    operator: Operator, memory: Memory, inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn
) -> Generator[Any, None, _Seen]:
    inputs = {name: _conformed(rows, name, memory) for name, rows in inputs.items()}
    position, timestamp = (largest_of(inputs.values(), column) for column in ("position", "timestamp"))
    state = yield from operator(inputs, writer, turn)
    behind = getattr(state, "frontier", None)  # of late rows, which are applied behind all others
    forgotten = getattr(state, "forgotten", None)
    return _Seen(state, forgotten, largest(position, behind), timestamp, {name: rows.schema for name, rows in inputs.items()})


class _Seeing:
    """The parts of a partition's state, and the positions, timestamps and columns of the rows of their turns."""

    def __init__(self, label: str, parts: StateParts) -> None:
        self._label = label
        self._parts = parts
        self.held = parts.held
        self.position: int | None = None
        self.timestamp: int | None = None
        self.forgotten: int | None = None
        self.columns: dict[str, str] = {}

    def up_to(self, end: int) -> Any:
        return self._parts.up_to(end)

    def remember(self, end: int, seen: _Seen) -> None:
        self._parts.remember(end, seen.state)
        self.position, self.timestamp = largest(self.position, seen.position), largest(self.timestamp, seen.timestamp)
        self.forgotten = largest(self.forgotten, seen.forgotten)
        self.columns = common_columns(self._label, self.columns, {name: schema_text(schema) for name, schema in seen.columns.items()})


class ResumedTurn:
    """The turn of a partition, the only one of its run; ``memory_bytes`` is how many it may take."""

    def __init__(self, memory: Memory, partition: PartitionTurn, memory_bytes: int) -> None:
        self._memory = memory
        self._partition = partition
        self._memory_bytes = memory_bytes
        self._has_begun = False

    def __call__(self, partition: int, elements: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        """The results of the partition's elements."""
        memory, notes = self._memory, dict[str, list[str]]()
        described = [(end, part) for end, part in memory.partitions.get(str(partition), ())]
        read = partial(read_snapshot, get=memory.files.get_all, checksum=memory.files.checksum, as_read=memory.as_now)
        with memory.files.putting() as put:
            parts = StateParts(described, self._memory_bytes, read, partial(self._written, put, partition))
            seeing = _Seeing(memory.label, parts)
            first_notes = [write_note(to, noted) for to, noted in memory.notes.items()] if partition == 0 else []
            turn = Turn(None, memory.frontier, None, memory.horizon, forgotten=memory.forgotten)
            yield from self._partition.released(chain(first_notes, _noting(elements, notes)), turn, writer, seeing)
            after = parts.all_written()
        if seeing.columns or notes or after != described:
            self._require_begun()
            reached = seeing.position, seeing.timestamp, seeing.forgotten
            ended = TurnEnded(memory.label, partition, after, *reached, seeing.columns, notes)
            memory.turns.put(f"{memory.prefix}-{partition:05d}.json", json.dumps(ended._asdict()).encode())

    def _require_begun(self) -> None:
        if not self._has_begun:
            self._memory.require_begun()
            self._has_begun = True

    def _written(self, put: Callable[[str, pa.Buffer], None], partition: int, state: Any, before: Snapshot) -> Described | None:
        def named(content: pa.Buffer) -> str:
            self._require_begun()
            name = f"{self._memory.prefix}-{partition:05d}-{uuid4().hex[:12]}.arrow"
            put(name, content)
            return name

        described = write_snapshot(state, named, before)
        count_state(state, described)
        return described


def _noting(elements: Iterable[bytes], notes: dict[str, list[str]]) -> Iterator[bytes]:
    for element in elements:
        if (note := read_note(element)) is not None and note[1]:
            notes[note[0]] = sorted({*notes.get(note[0], ()), *note[1]})
        yield element


def _conformed(rows: pa.Table, name: str, memory: Memory) -> pa.Table:
    """The rows with the columns of the runs before; raises :class:`StateRefused` for others."""
    if name not in memory.columns:
        return rows
    expected = text_schema(memory.columns[name])
    for column in (UNCHANGED, ARRIVES, *STORED_OR_NOT):  # of this run alone: not remembered, or of rows that are not stored
        if column in rows.column_names and column not in expected.names:
            return _conformed(rows.drop_columns([column]), name, memory).append_column(column, rows[column])
    rows = widened_rows(rows, expected, memory.label)
    if rows.schema.remove_metadata().equals(expected):
        return rows
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # a column of nulls alone may have no type
        rows = pa.concat_tables([expected.empty_table(), rows], promote_options="default").combine_chunks()
    if not rows.schema.remove_metadata().equals(expected):
        raise StateRefused(
            f"{memory.label}: the rows of '{name}' had the columns {_shown(expected)} in the runs before, and have "
            f"{_shown(rows.schema)}: give the"
            " same, or begin with an empty folder"
        )
    return rows


def widened_rows(rows: pa.Table, types: pa.Schema, label: str) -> pa.Table:
    """The rows with columns of wider types, of those that ``types`` name; others stay as they are."""
    for name in (name for name in rows.column_names if name in types.names):
        stored, kind = rows[name].type, types.field(name).type
        if stored != kind and not pa.types.is_null(stored) and narrowing(stored, kind) is None:
            wider = exact_cast(combine_chunks(rows[name]), kind, ValuePlace(label))
            rows = rows.set_column(rows.schema.get_field_index(name), name, wider)
    return rows


def _now_named(rows: pa.Table, now: pa.Schema) -> pa.Table:
    """The rows with the names that their columns have now, in values of a type in ``now``."""
    if "value" not in rows.column_names or "value" not in now.names:
        return rows
    named, kind = now_named(rows["value"].type), now.field("value").type
    if named == rows["value"].type or not pa.types.is_struct(kind) or kind.get_field_index(IN_BRACKETS) < 0:
        return rows
    return rows.set_column(rows.schema.get_field_index("value"), "value", combine_chunks(rows["value"]).view(named))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
