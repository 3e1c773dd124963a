"""The content of tables as the last run has left it, for transforms that are rebuilt: the rows that a source has stored,
through the steps between it and the transform.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pipeline import AppliedPTransform
from apache_beam.pvalue import DoOutputsTuple, PCollection
from apache_beam.transforms.ptransform import get_named_nested_pvalues

from beam_joins.coders.snapshot import Described, read_snapshot
from beam_joins.columns.sorting import combine_chunks, ends, integers, valid
from beam_joins.keys.key_columns import factorize
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.applied_transforms import Applied, collections_in, main_inputs, producer_of, with_each
from beam_joins.transforms.engine.construction.table_type import Physical, as_table, physical_of, table_type
from beam_joins.transforms.engine.resumed.resumed_turn import Memory
from beam_joins.transforms.engine.resumed.state_folder import StateFolder, without_state
from beam_joins.transforms.engine.stages.table_forms import prepared

_ROWS = 1 << 16
"""The number of rows in a batch."""


class NotStored(Exception):
    """The rows of a collection are not stored; the argument is the label of its source."""


class _Content(NamedTuple):
    """The content of a producer's outputs, ``None`` where they have all their rows, and the frontiers of its sources."""

    outputs: Any
    frontiers: tuple[int, ...] = ()


def _side_inputs(applied: AppliedPTransform) -> bool:
    """Whether a transform, or one within it, has side inputs."""
    return bool(applied.side_inputs) or any(map(_side_inputs, applied.parts))


class StoredContent:
    """The content of collections at the frontier of the runs before. ``public`` has the transforms whose state is in the
    folder or may be, by their full labels.
    """

    def __init__(self, folder: StateFolder, public: Mapping[str, Applied]) -> None:
        self._folder, self._public = folder, public
        self._made: dict[str, _Content] = {}

    def with_changes(
        self, inputs: Any, of_tables: Sequence[PCollection[Any]], above: Mapping[int, Sequence[int]]
    ) -> tuple[Any, int | None]:
        """The inputs of a transform, each of those that are tables with its rows at the frontier and the changes of this run, and
        the position of all these rows, ``None`` without any; raises :class:`NotStored`. ``above`` are the positions at which tables
        begin anew that an input, by its identity, is made of.
        """
        tables: dict[int, tuple[PCollection[Any], list[int]]] = {}
        for pcoll in of_tables:
            if id(pcoll) not in tables:
                whole, frontiers = self._whole(pcoll, len(tables))
                tables[id(pcoll)] = whole, [*above[id(pcoll)], *frontiers]
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

    def _whole(self, pcoll: PCollection[Any], number: int) -> tuple[PCollection[Any], tuple[int, ...]]:
        with without_state(pcoll.pipeline):
            stored, frontiers = self._of(pcoll)
        if stored is None:  # it has all its rows
            return pcoll, frontiers
        whole: PCollection[Any] = (stored, pcoll) | f"All rows of input {number}" >> beam.Flatten()
        whole.element_type = pcoll.element_type
        return as_table(whole, table_type(pcoll)._replace(anew=None), physical_of(pcoll).at_most("checked")), frontiers

    def _of(self, pcoll: PCollection[Any]) -> _Content:
        producer = producer_of(pcoll, self._public)
        label = producer.full_label
        if label not in self._made:
            self._made[label] = self._through(producer, pcoll)
        made = self._made[label]
        if made.outputs is None:
            return made
        rows = _output(made.outputs, producer, pcoll)
        if rows is None:
            raise NotStored(label)
        return made._replace(outputs=rows)

    def _through(self, producer: AppliedPTransform, pcoll: PCollection[Any]) -> _Content:
        """The outputs of a transform for the content of its inputs."""
        label, applied = producer.full_label, self._public.get(producer.full_label)
        if self._folder.plan.is_rebuilt(label):
            return _Content(None)
        if applied is not None and applied.table_stage is not None:
            return self._rows(f"{label}/{applied.table_stage}", pcoll)
        inputs = main_inputs(producer) if applied is None else collections_in(applied.inputs)
        if not inputs or (applied is None and _side_inputs(producer)):
            raise NotStored(label)
        above = {id(each): self._of(each) for each in inputs}
        frontiers = tuple({frontier for each in above.values() for frontier in each.frontiers})
        contents = {each: content.outputs for each, content in above.items() if content.outputs is not None}
        if not contents:
            return _Content(None, frontiers)
        some: Any = tuple(contents.values())  # of a Flatten
        if applied is not None or not isinstance(producer.transform, beam.Flatten):
            if len(contents) < len(above):
                raise NotStored(label)
            some = with_each(_inputs(producer) if applied is None else applied.inputs, lambda each: contents[id(each)])
        transform: Any = producer.transform if applied is None else applied.transform
        return _Content(some | _label(label) >> transform, frontiers)

    def _rows(self, stage: str, pcoll: PCollection[Any]) -> _Content:
        of_table, begin = table_type(pcoll), pcoll.pipeline
        memory = self._folder.stored(stage, of_table.columns)
        parts = [part for _, of_partition in sorted(memory.partitions.items()) for _, part in of_partition if part is not None]
        described = begin | _label(f"parts of {stage}") >> beam.Create(parts).with_output_types(dict[str, Any])
        rows = described | _label(stage) >> beam.FlatMap(_inserts, memory)
        rows.element_type = ChangeBatch
        table = as_table(rows, of_table, Physical("final", physical_of(pcoll).bytes))
        return _Content(table, () if memory.frontier is None else (memory.frontier,))


def _inputs(producer: AppliedPTransform) -> Any:
    """The inputs of a transform as they were given."""
    inputs = dict(producer.main_inputs)
    if list(inputs) == ["None"]:
        return inputs["None"]
    return tuple(inputs.values()) if all(map(str.isdigit, inputs)) else inputs


def _output(outputs: Any, producer: AppliedPTransform, pcoll: PCollection[Any]) -> PCollection[Any] | None:
    """The collection among the outputs of a transform that is to them as ``pcoll`` is to those of its producer."""
    if isinstance(outputs, PCollection):
        return outputs
    if isinstance(outputs, DoOutputsTuple):
        output: PCollection[Any] = outputs[outputs._main_tag if pcoll.tag is None else pcoll.tag]
        return output
    names = {id(each): name for name, each in producer.outputs.items()}
    named = dict(get_named_nested_pvalues(outputs))
    made = named.get(names.get(id(pcoll)))
    return made if isinstance(made, PCollection) else None


def _label(label: str) -> str:
    return f"Stored rows of {label.replace('/', ' ')}"


def _inserts(part: Described, memory: Memory) -> Iterator[ChangeBatch]:
    """The rows of a part of the state as inserts, some at a time."""
    state = read_snapshot(part, memory.files.get_all, memory.files.checksum, memory.as_now).state
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
