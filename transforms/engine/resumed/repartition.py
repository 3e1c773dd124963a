"""Distributes the state of all stages over another number of partitions: it costs a copy of the folder at most."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from beam_joins.coders.snapshot import Described, read_snapshot, tables_of, write_snapshot
from beam_joins.keys.key_columns import Bools
from beam_joins.transforms.engine.blocks.places import SPACE
from beam_joins.transforms.engine.resumed.manifest import DescribedPart, Manifest, Remembered
from beam_joins.transforms.engine.resumed.resumed_turn import widened_rows
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from beam_joins.transforms.engine.resumed.state_parts import apart, joined, split
from beam_joins.transforms.engine.turns.parts import routed_by
from beam_joins.values.schema_evolution import union_schema

_Types = dict[int, pa.Schema]
_Read = Callable[[Described | None], Any]
_Write = Callable[[Any], Described | None]


def repartitioned(files: StateFiles, manifest: Manifest, count: int, folder: str) -> Manifest:
    """The manifest of the same state in so many partitions, whose files are new ones in ``folder``; one part of the state at a
    time is in memory. Raises :class:`~beam_joins.coders.CorruptData` and :class:`~beam_joins.OutputError`.
    """
    numbers = itertools.count()

    def put(content: pa.Buffer) -> str:
        name = f"{folder}/{next(numbers):06d}-{uuid4().hex[:12]}.arrow"
        files.put(name, content)
        return name

    write = partial(write_snapshot, put=put)
    stages = {label: _of_stage(each, count, reader_of(files, each), write) for label, each in manifest.stages.items()}
    return manifest._replace(partitions=count, stages=stages)


def reader_of(files: StateFiles, remembered: Remembered) -> _Read:
    """The function that reads a part of the state of a stage, with columns of the types that hold the values of all parts."""
    types = _widest_types(files, remembered)

    def as_one(place: int, table: pa.Table) -> pa.Table:
        return widened_rows(table, types[place], "the state") if place in types else table

    return lambda described: read_snapshot(described, files.get_all, files.checksum, as_one).state


def _widest_types(files: StateFiles, remembered: Remembered) -> _Types:
    """The types that hold the values of all files of each field: files of earlier runs may have narrower ones."""
    types: _Types = {}

    def noted(place: int, table: pa.Table) -> pa.Table:
        now = table.schema.remove_metadata()
        types[place] = union_schema(types.get(place, now), now)
        return table.slice(0, 0)

    for parts in remembered.partitions.values():
        for _, described in parts:
            read_snapshot(described, files.get_all, files.checksum, noted)
    return types


def _of_stage(remembered: Remembered, count: int, read: _Read, write: _Write) -> Remembered:
    shares: dict[int, list[list[DescribedPart]]] = {}  # of each new partition the parts that it gets from each old one
    for parts in remembered.partitions.values():
        of_old: dict[int, list[DescribedPart]] = {}
        for end, described in parts:
            for number, state in _shares(read(described), 0, count, count):
                of_old.setdefault(number, []).append((end, write(state)))
        for number, made in of_old.items():
            shares.setdefault(number, []).append(_up_to_the_end(made))
    partitions = {str(number): each[0] if len(each) == 1 else _merged(each, read, write) for number, each in sorted(shares.items())}
    return remembered._replace(partitions=partitions)


def _shares(state: Any, low: int, high: int, count: int) -> Iterator[tuple[int, Any]]:
    """The states of the partitions from ``low`` to ``high`` that have something, of ``count`` in all."""
    if state is None or not any(map(len, tables_of(state))):
        return
    if high - low == 1:
        yield low, state
        return
    middle = (low + high) // 2

    def is_below(rows: pa.Table) -> Bools:
        below: Bools = routed_by(rows) % np.uint64(count) < middle
        return below

    one, other = apart(state, is_below)
    yield from _shares(one, low, middle, count)
    yield from _shares(other, middle, high, count)


def _up_to_the_end(parts: list[DescribedPart]) -> list[DescribedPart]:
    """The parts of a partition, which cover all places."""
    return parts if parts[-1][0] == SPACE else [*parts, (SPACE, None)]


def _merged(several: Sequence[Sequence[DescribedPart]], read: _Read, write: _Write) -> list[DescribedPart]:
    """The parts of one partition of those of several, whose rows have other keys."""
    made, begin = list[DescribedPart](), 0
    for end in sorted({end for parts in several for end, _ in parts}):
        state = None
        for parts in several:
            state = joined(state, _between(read(next(part for last, part in parts if last >= end)), begin, end))
        made.append((end, write(state)))
        begin = end
    return made


def _between(state: Any, begin: int, end: int) -> Any:
    """The state of the rows with places from ``begin`` on, before ``end``."""
    upper = split(state, begin)[1] if begin else state
    return upper if end == SPACE else split(upper, end)[0]
