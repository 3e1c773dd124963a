"""The content of tables as the last run has left it, for transforms that are rebuilt: the rows that a source has stored,
through the steps between it and the transform.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pipeline import AppliedPTransform
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.coders.snapshot import Described, read_snapshot
from beam_joins.keys.key_columns import factorize
from beam_joins.sorting import combine_chunks, ends, integers, valid
from beam_joins.transforms.engine.prepared import prepared
from beam_joins.transforms.engine.resumed.memory import Memory
from beam_joins.transforms.engine.resumed.state_folder import StateFolder, without_state
from beam_joins.transforms.engine.table_type import Physical, as_table, is_table, physical_of, table_type

_ROWS = 1 << 16
"""The number of rows in a batch."""


class NotStored(Exception):
    """The rows of a collection are not stored; the argument is the label of its source."""


class Applied(NamedTuple):
    """A public transform as it was applied: to which inputs, and the name of its stage whose state has the rows of the table
    that it makes, ``None`` if there is none.
    """

    transform: beam.PTransform[Any, Any]
    inputs: Any
    table_stage: str | None


def collections_in(inputs: Any) -> list[PCollection[Any]]:
    """The collections among the inputs of a transform, in order."""
    several = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple | list) else None
    return [inputs] if several is None else [each for part in several for each in collections_in(part)]


def with_each(inputs: Any, of_each: Callable[[PCollection[Any]], PCollection[Any]]) -> Any:
    """The inputs of a transform, each collection replaced by another."""
    if isinstance(inputs, dict):
        return {name: with_each(each, of_each) for name, each in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(with_each(each, of_each) for each in inputs)
    return of_each(inputs)


def producer_of(pcoll: PCollection[Any], public: Collection[str]) -> AppliedPTransform:
    """The transform that made a collection, outside those that are being applied: the outermost of those with a ``public``
    label, or else the outermost that has none of them within it.
    """
    inside = {id(each) for each in pcoll.pipeline.transforms_stack}
    made = pcoll.producer
    assert made is not None
    above = [made]
    while above[-1].parent is not None and id(above[-1].parent) not in inside:
        above.append(above[-1].parent)
    return next(
        (each for each in reversed(above) if each.full_label in public),
        next((each for each in reversed(above) if not any(label.startswith(f"{each.full_label}/") for label in public)), made),
    )


def _side_inputs(applied: AppliedPTransform) -> bool:
    """Whether a transform, or one within it, has side inputs."""
    return bool(applied.side_inputs) or any(map(_side_inputs, applied.parts))


class StoredContent:
    """The content of collections at the frontier of the runs before. ``public`` has the transforms whose state is in the
    folder or may be, by their full labels.
    """

    def __init__(self, folder: StateFolder, public: Mapping[str, Applied]) -> None:
        self._folder, self._public = folder, public
        self._made: dict[int, PCollection[Any] | None] = {}
        self._frontiers: list[int] = []

    def with_changes(self, inputs: Any, above: Mapping[int, Sequence[int]]) -> tuple[Any, int | None]:
        """The inputs of a transform, each table with its rows at the frontier and the changes of this run, and the position of all
        these rows, ``None`` without any; raises :class:`NotStored`. ``above`` are the positions at which tables begin anew that an
        input, by its identity, is made of.
        """
        tables: dict[int, tuple[PCollection[Any], list[int]]] = {}
        for pcoll in filter(is_table, collections_in(inputs)):
            if id(pcoll) not in tables:
                self._frontiers = [*above[id(pcoll)]]
                tables[id(pcoll)] = self._whole(pcoll, len(tables)), self._frontiers
        position = max((each for _, frontiers in tables.values() for each in frontiers), default=None)

        def table(pcoll: PCollection[Any]) -> PCollection[Any]:
            whole, frontiers = tables.get(id(pcoll), (pcoll, []))
            if not frontiers or position is None or min(frontiers) == position:
                return whole
            if id(pcoll) not in collapsed:
                collapsed[id(pcoll)] = from_position(whole, position, f"Input {len(collapsed)} from the frontier")
            return collapsed[id(pcoll)]

        collapsed: dict[int, PCollection[Any]] = {}
        return with_each(inputs, table), position

    def _whole(self, pcoll: PCollection[Any], number: int) -> PCollection[Any]:
        with without_state(pcoll.pipeline):
            stored = self._of(pcoll)
        if stored is None:  # it has all its rows
            return pcoll
        whole: PCollection[Any] = (stored, pcoll) | f"All rows of input {number}" >> beam.Flatten()
        whole.element_type = pcoll.element_type
        return as_table(whole, table_type(pcoll)._replace(anew=None), physical_of(pcoll).at_most("checked"))

    def _of(self, pcoll: PCollection[Any]) -> PCollection[Any] | None:
        if id(pcoll) not in self._made:
            producer = producer_of(pcoll, self._public)
            made = self._through(producer, pcoll)
            contents = [made] if isinstance(made, PCollection) else collections_in(tuple(made or ()))
            self._made |= zip(map(id, producer.outputs.values()), contents, strict=False)
        return self._made.get(id(pcoll))

    def _through(self, producer: AppliedPTransform, pcoll: PCollection[Any]) -> Any:
        """What a transform gives for the content of its inputs."""
        label, applied = producer.full_label, self._public.get(producer.full_label)
        if self._folder.plan.is_rebuilt(label):
            return None
        if applied is not None and applied.table_stage is not None:
            return self._rows(f"{label}/{applied.table_stage}", pcoll)
        inputs = (
            [each for each in producer.inputs if isinstance(each, PCollection)] if applied is None else collections_in(applied.inputs)
        )
        if not inputs or (applied is None and _side_inputs(producer)):
            raise NotStored(label)
        contents = {id(each): content for each in inputs if (content := self._of(each)) is not None}
        if not contents:
            return None
        if applied is not None:
            return with_each(applied.inputs, lambda each: contents[id(each)]) | _label(label) >> applied.transform
        several = isinstance(producer.transform, beam.Flatten)
        if len(contents) < len(inputs) and not several:
            raise NotStored(label)
        some = tuple(contents.values()) if several or len(inputs) > 1 else contents[id(inputs[0])]
        return some | (_label(label) >> producer.transform)  # type: ignore[operator]

    def _rows(self, stage: str, pcoll: PCollection[Any]) -> PCollection[Any]:
        of_table, begin = table_type(pcoll), pcoll.pipeline
        memory = self._folder.stored(stage, of_table.value_column)
        if memory.frontier is not None:
            self._frontiers.append(memory.frontier)
        parts = [part for _, of_partition in sorted(memory.partitions.items()) for _, part in of_partition if part is not None]
        described = begin | _label(f"parts of {stage}") >> beam.Create(parts).with_output_types(dict[str, Any])
        rows = described | _label(stage) >> beam.FlatMap(_inserts, memory)
        rows.element_type = ChangeBatch
        return as_table(rows, of_table, Physical("final", physical_of(pcoll).bytes))


def _label(label: str) -> str:
    return f"Stored rows of {label.replace('/', ' ')}"


def _inserts(part: Described, memory: Memory) -> Iterator[ChangeBatch]:
    """The rows of a part of the state as inserts, some at a time."""
    state = read_snapshot(part, memory.files.get, memory.files.checksum, memory.as_now).state
    rows = state.rows.table()
    for begin in range(0, len(rows or ()), _ROWS):
        some = rows.slice(begin, _ROWS)
        key, value, timestamp = (combine_chunks(some[name]) for name in ("key", "value", "timestamp"))
        positions = pa.repeat(pa.scalar(memory.frontier, pa.int64()), len(some))
        yield ChangeBatch(key=key, new=value, before=pa.nulls(len(some), pa.int64()), timestamp=timestamp, position=positions)


def from_position(table: PCollection[Any], position: int, label: str = "From the frontier") -> PCollection[Any]:
    """A table whose changes up to a position are one insert at it for each row that is there."""
    with without_state(table.pipeline):
        whole = prepared(table, label, needs="whole")
    rows = whole | f"{label} on" >> beam.FlatMap(_from_position, position)
    rows.element_type = ChangeBatch
    return as_table(rows, table_type(table), physical_of(whole))


def _from_position(batch: ChangeBatch, position: int) -> Iterator[ChangeBatch]:
    at, (code,) = integers(batch.position), factorize(batch.key)
    by = np.lexsort((at, code))
    early = by[at[by] <= position]
    last = early[ends(code[early])]
    kept = at > position
    kept[last[valid(batch.new)[last]]] = True
    some = batch.filter(pa.array(kept))
    at = integers(some.position)
    before = pa.array(integers(some.before.fill_null(-1)), mask=~valid(some.before) | (at <= position))
    if len(some):
        columns = {"key": some.key, "new": some.new, "timestamp": some.timestamp, "earlier": some.earlier}
        yield ChangeBatch(**columns, before=before, position=pa.array(np.maximum(at, position)))
