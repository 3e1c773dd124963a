"""The joins of tables: the rows that meet are in one partition and joined there; rows that moved from one
partition to another have a way back.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.columns.compared import Comparison, Form, comparisons, in_forms, without_spellings
from beam_joins.columns.sorting import combine_chunks, integers, valid
from beam_joins.functions.joiner import SIDES, Join, narrowed
from beam_joins.kernels.key_join import KeyState, key_join, key_step
from beam_joins.kernels.many_to_many import Condition, ManyToManyState, many_to_many, many_to_many_step
from beam_joins.kernels.overlap import Joined, OverlapState, overlap_in_parts, step
from beam_joins.kernels.overlap_events import Shape
from beam_joins.kernels.references import listed_subscriptions, looking_up, rejoined, subscriptions
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import joined_keys, kinds
from beam_joins.keys.nested import CombinedKeyType
from beam_joins.keys.opaque import is_opaque
from beam_joins.options.join_types import How
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.blocks.metrics import UNMATCHED, count
from beam_joins.transforms.engine.blocks.observed_kinds import keys_may_meet, together
from beam_joins.transforms.engine.construction.table_type import TableType, as_table, physical_of, table_type
from beam_joins.transforms.engine.stages.batch_references import flattened
from beam_joins.transforms.engine.stages.foreign_keys import References, Referred
from beam_joins.transforms.engine.stages.replay import Replay, Route, RowRouter
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import batch_rows, changes_in_python, no_rows
from beam_joins.transforms.engine.transform_outputs import Handling
from beam_joins.transforms.engine.turns.operator import Operator, Turn

LEFT, RIGHT = SIDES
HALVES = "halves"
_log: Final = logging.getLogger(__name__)

KeyPart = Callable[[pa.Array], pa.Array]
"""Gives the part of left rows' keys by which they look up right rows."""


class Sides(NamedTuple):
    """The two tables of a join in batches, and their types; ``has_spellings``: rows of the right table are known by other texts
    of their keys than before, so that a row may get another one by a delete and an insert.
    """

    left: PCollection[Any]
    right: PCollection[Any]
    types: tuple[TableType, TableType]
    has_spellings: bool = False

    @property
    def value_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The types of the values' columns."""
        return self.types[0].value_column, self.types[1].value_column

    @property
    def bytes(self) -> int | None:
        """About the size of both tables; ``None`` where that of one is not known."""
        left, right = physical_of(self.left).bytes, physical_of(self.right).bytes
        return None if left is None or right is None else left + right


def in_sides(left: PCollection[Any], right: PCollection[Any]) -> Sides:
    """Two tables as they come in."""
    left, right = prepared(left, "Left", needs="turns"), prepared(right, "Right", needs="turns")
    return Sides(left, right, (table_type(left), table_type(right)))


def compared_keys(
    transform: str, foreign_key: Any, left: TableType, right: TableType, *, is_told: bool = True, refers_to: Any = None
) -> list[Comparison]:
    """How the database of two tables compares the columns of a foreign key and of the key that it ``refers_to``, by default
    that of the right table; none where that is not known. ``is_told``: a warning says what the database does not compare.
    Raises ``ValueError``.
    """
    names, others = ([names] if isinstance(names, str) else names for names in (foreign_key, refers_to or []))
    if not isinstance(names, list | tuple) or not isinstance(others, list | tuple):
        return []
    try:
        made = comparisons(left.compared.columns(names), right.compared.columns(others) if others else right.compared.key)
    except ValueError as error:
        raise ValueError(f"{transform}: {error}") from None
    for each in made:
        if each.note and is_told:
            _log.warning("%s: %s", transform, each.note)
    return made


def options_compared(foreign_key: Any, tables: Sequence[PCollection[Any]], *, refers_to: Any = None) -> dict[str, Any]:
    """The forms of the keys of a left and a right table as an option on which the state of their join depends; none where
    keys are compared as they are.
    """
    if len(tables) != len(SIDES):
        return {}
    left, right = map(table_type, tables)
    made = compared_keys("a join", foreign_key, left, right, is_told=False, refers_to=refers_to)
    forms = [(each.left, each.right) for each in made]
    return {"compared": forms} if any(map(any, forms)) else {}


def in_one_text(sides: Sides, references: References, compared: Sequence[Comparison]) -> tuple[Sides, References]:
    """The tables and references of a join with keys in the forms that are equal where the database has them equal."""
    rights = [each.right for each in compared]
    references = references_in_forms(references, [each.left for each in compared])
    if any(rights):
        left_type, right_type = sides.types
        key = in_forms(pa.nulls(0, right_type.key_column), rights).type
        of_right = right_type._replace(key=right_type.key if is_opaque(key) else key)
        respelled = sides.right | "Right as compared" >> beam.Map(_respelled, rights)
        respelled.element_type = ChangeBatch
        right = as_table(respelled, of_right, physical_of(sides.right).at_most("checked"))
        sides = Sides(sides.left, right, (left_type, of_right), has_spellings=True)
    return sides, references


def references_in_forms(references: References, forms: Sequence[Form | None]) -> References:
    """References in the forms in which they are compared."""
    if not any(forms):
        return references

    def of(batch: ChangeBatch) -> Referred:
        made = references.of(batch)
        return made._replace(to=in_forms(made.to, forms))

    return references._replace(of=of, type=in_forms(pa.nulls(0, references.type), forms).type)


def _respelled(batch: ChangeBatch, forms: Sequence[Form | None]) -> ChangeBatch:
    columns = {name: getattr(batch, name) for name in ("new", "before", "timestamp", "position", "earlier")}
    return ChangeBatch(key=in_forms(batch.key, forms), **columns)


def combined_type(references: References, types: tuple[TableType, TableType]) -> CombinedKeyType:
    """The type of the keys of a result whose keys combine a left row's reference and key."""
    left, right = types
    foreign_key = joined_keys(pa.nulls(0, references.type), pa.nulls(0, right.key_column)).type
    return CombinedKeyType(foreign_key, left.key_column)


LeftRows = Callable[[ChangeBatch, BlockWriter], pa.RecordBatch]
"""Gives the left rows of a join that the changes of a batch stand for; rows that cannot be used are dropped
into the writer.
"""


def referring_rows(
    references: References,
    shape: Shape,
    of_table: TableType,
    columns: frozenset[str] | None,
    *,
    reason: str | None = "null_foreign_key",
) -> LeftRows:
    """The rows of a left table with their references, and the given columns of their values (``None``: all).

    Rows that refer to nothing are dropped, for a ``reason`` if there is one, where left rows are not kept.
    """
    return partial(_referring_rows, references, shape, of_table, columns, reason)


def _referring_rows(
    references: References,
    shape: Shape,
    of_table: TableType,
    columns: frozenset[str] | None,
    reason: str | None,
    batch: ChangeBatch,
    writer: BlockWriter,
) -> pa.RecordBatch:
    refers, failed = references.of(batch)
    lost = valid(batch.new) & ~failed
    if references.listed is None:
        lost &= ~valid(refers)[: len(batch)]
        asked = subscriptions(batch, refers, shape)
    else:
        lost &= np.array([all(key is None for key in keys or ()) for keys in refers[: len(batch)]], np.bool_)
        asked = listed_subscriptions(batch, refers, references.listed.of, keep_unmatched=shape.keeps_left)
    if reason is not None and not shape.keeps_left and lost.any():
        rows_lost = pa.array(lost)  # they become Python objects only where the dropped rows are an output
        writer.drop_rows(
            reason,
            int(lost.sum()),
            lambda: ((change, change.timestamp) for change in changes_in_python(batch.filter(rows_lost), of_table)),
        )
    value = asked.schema.get_field_index("value")
    return asked.set_column(value, "value", narrowed(asked.column("value"), columns))


def by_reference(rows: LeftRows, to: str = LEFT) -> RowRouter:
    """Rows on their way to those that they refer to; rows that refer to nothing are spread by their keys."""
    return partial(_by_reference, rows, to)


def _by_reference(rows: LeftRows, to: str, batch: ChangeBatch, arrival: int, writer: BlockWriter) -> None:
    asked = rows(batch, writer)
    reference = asked.column("reference")
    writer.noted(to).update(kinds(reference))
    writer.send(to, np.where(valid(reference), hashes(reference), hashes(asked.column("key"))), asked)


def joined_table(
    transform: str,
    sides: Sides,
    left_rows: RowRouter,
    columns: tuple[frozenset[str] | None, frozenset[str] | None],
    *,
    join: Join,
    shape: Shape,
    handling: Handling,
    looks_up: KeyPart | pa.DataType,
    keys: tuple[str, str] = ("left table's keys", "right table's keys"),
    dropping: tuple[str, ...] = (),
    rejoin: bool = False,
    finish: Callable[[ChangeBatch], ChangeBatch] | None = None,
) -> tuple[PCollection[Any], dict[str, PCollection[Any]]]:
    """The batches of a joined table, and the outputs of the stage that routes the left rows.

    ``columns`` are those of the left and of the right values that the joiner reads (``None``: all).
    ``looks_up`` gives the part of their keys that left rows look up, or is the type of the references that
    ``left_rows`` gives. Rows with references may move from one to another: where the result has their keys,
    their halves are put together in one more stage, or with ``rejoin``, if all references of a row are in one
    partition, at once. ``finish`` maps the batches that come out. ``keys`` are the names of the keys that
    meet, for messages.
    """
    lefts = sides.left | "Left" >> Route(handling.functions.route(left_rows), to=(LEFT, *dropping, *handling.tags), size=sides.bytes)
    rights = sides.right | "Right" >> Route(batch_rows(RIGHT, columns[1]), to=(RIGHT,), size=sides.bytes)
    moving = shape.result == "left_key" and isinstance(looks_up, pa.DataType) and not rejoin
    joined = (lefts[LEFT], rights[RIGHT]) | "Join" >> Replay(
        handling.functions.replay(_overlapped(join, shape, sides, looks_up, moving, finish)),
        to=(MAIN, *((HALVES,) if moving else ()), *handling.tags),
        main_type=ChangeBatch,
        check=keys_may_meet(transform, LEFT, RIGHT, *keys),
        tables=(LEFT, RIGHT),
        size=sides.bytes,
        stored=_columns_read(SIDES, sides.types, columns, [looks_up] if isinstance(looks_up, pa.DataType) else []),
    )
    handling.collect(lefts, joined)
    return _with_moved(joined) if moving else joined[MAIN], lefts


def pairs_table(
    transform: str,
    sides: Sides,
    rows: Sequence[LeftRows],
    columns: Sequence[frozenset[str] | None],
    references: Sequence[References],
    *,
    join: Join,
    shape: Shape,
    condition: Condition | None,
    handling: Handling,
    dropping: tuple[str, ...] = (),
) -> tuple[PCollection[Any], list[dict[str, PCollection[Any]]]]:
    """The batches of the join of two tables by the references of both, and the outputs of the stages that route their rows."""
    routed = [
        table
        | name.title()
        >> Route(handling.functions.route(by_reference(of_side, name)), to=(name, *dropping, *handling.tags), size=sides.bytes)
        for table, name, of_side in zip((sides.left, sides.right), SIDES, rows, strict=True)
    ]
    joined = tuple(each[name] for each, name in zip(routed, SIDES, strict=True)) | "Join" >> Replay(
        handling.functions.replay(_paired(join, shape, condition, sides, references)),
        to=(MAIN, HALVES, *handling.tags),
        main_type=ChangeBatch,
        check=keys_may_meet(transform, LEFT, RIGHT, "left table's join keys", "right table's join keys"),
        tables=(LEFT, RIGHT),
        size=sides.bytes,
        stored=_columns_read(SIDES, sides.types, columns, [each.type for each in references]),
    )
    handling.collect(*routed, joined)
    return _with_moved(joined), routed


def _with_moved(joined: dict[str, PCollection[Any]]) -> PCollection[Any]:
    """The batches of a join, with the changes of rows whose halves it has put apart."""
    moved = (joined[HALVES],) | "Moved" >> Replay(_moved, main_type=ChangeBatch, stored={})
    return flattened((joined[MAIN], moved[MAIN]), "Joined")


def _columns_read(
    inputs: Sequence[str],
    types: Sequence[TableType],
    columns: Sequence[frozenset[str] | None],
    references: Sequence[pa.DataType | None] = (),
) -> dict[str, pa.Schema]:
    """The columns of the rows of inputs, with the given columns of their values, and the references of those that have some."""
    read = {
        name: pa.schema([("key", of_table.key_column), ("value", narrowed(pa.nulls(0, of_table.value_column), of_value).type)])
        for name, of_table, of_value in zip(inputs, types, columns, strict=True)
    }
    for name, reference in zip(inputs, references, strict=False):
        read[name] = read[name] if reference is None else read[name].append(pa.field("reference", reference))
    return read


def key_joined_table(
    transform: str,
    tables: Mapping[str, PCollection[Any]],
    columns: Sequence[frozenset[str] | None],
    *,
    join: Join,
    hows: Sequence[How],
    handling: Handling,
) -> PCollection[Any]:
    """The batches of the join of tables with a common key, by their names, with the given columns of their values
    (``None``: all).
    """
    types, sizes = list(map(table_type, tables.values())), [physical_of(table).bytes for table in tables.values()]
    size = None if None in sizes else sum(filter(None, sizes))
    inputs = [name if name in SIDES else f"table {name}" for name in tables]  # not an output's name
    routed = [
        table | f"{name} rows" >> Route(batch_rows(to, read), to=(to,), size=size)
        for (name, table), to, read in zip(tables.items(), inputs, columns, strict=True)
    ]
    (first, *others), (to, *others_to) = [f"{name} table's keys" for name in tables], inputs
    joined = tuple(each[name] for each, name in zip(routed, inputs, strict=True)) | "Join" >> Replay(
        handling.functions.replay(_joined_by_key(inputs, types, join, hows)),
        to=(MAIN, *handling.tags),
        main_type=ChangeBatch,
        check=together(*(keys_may_meet(transform, to, other, first, keys) for other, keys in zip(others_to, others, strict=True))),
        tables=tuple(inputs),
        size=size,
        stored=_columns_read(inputs, types, columns),
    )
    handling.collect(joined)
    batches: PCollection[Any] = joined[MAIN]
    return batches


def _joined_by_key(names: Sequence[str], types: Sequence[TableType], join: Join, hows: Sequence[How]) -> Operator:
    """The join of the rows of a partition."""
    return partial(_join_by_key, names, list(map(no_rows, types)), join, hows)


def _join_by_key(
    names: Sequence[str],
    none: Sequence[pa.Table],
    join: Join,
    hows: Sequence[How],
    inputs: dict[str, pa.Table],
    writer: BlockWriter,
    turn: Turn,
) -> Generator[ChangeBatch, None, KeyState | None]:
    rows = [inputs.get(name, no) for name, no in zip(names, none, strict=True)]
    if turn.is_only:
        joined, state = key_join(rows, join, hows), None
    else:
        joined, state = key_step(KeyState(turn.frontier, *(turn.state or KeyState(None)).tables), rows, join, hows)
    count(UNMATCHED, joined.unmatched)
    if len(joined.changes):
        yield joined.changes
    return state


def _overlapped(
    join: Join,
    shape: Shape,
    sides: Sides,
    looks_up: KeyPart | pa.DataType,
    moving: bool,
    finish: Callable[[ChangeBatch], ChangeBatch] | None,
) -> Operator:
    """The join of the rows of a partition."""
    no_left, no_right = map(no_rows, sides.types)
    of_key = None if isinstance(looks_up, pa.DataType) else looks_up
    if isinstance(looks_up, pa.DataType):
        no_left = looking_up(no_left, pa.nulls(0, looks_up))
    return partial(_overlap, join, shape, (no_left, no_right), of_key, sides.has_spellings, moving, finish)


def _overlap(
    join: Join,
    shape: Shape,
    none: tuple[pa.Table, pa.Table],
    of_key: KeyPart | None,
    has_spellings: bool,
    moving: bool,
    finish: Callable[[ChangeBatch], ChangeBatch] | None,
    inputs: dict[str, pa.Table],
    writer: BlockWriter,
    turn: Turn,
) -> Generator[ChangeBatch, None, OverlapState | None]:
    left, right = (inputs.get(name, no) for name, no in zip(SIDES, none, strict=True))
    if has_spellings:
        right = without_spellings(right)
    if of_key is not None:
        left = looking_up(left, of_key(combine_chunks(left["key"])))
    if turn.is_only:
        parts, state = overlap_in_parts(left, right, join, shape), None
    else:
        parts, state = step((turn.state or OverlapState())._replace(frontier=turn.frontier), left, right, join, shape)
    for joined in parts:
        yield from _given(joined, writer, turn, moving, finish)
    return state


def _paired(join: Join, shape: Shape, condition: Condition | None, sides: Sides, references: Sequence[References]) -> Operator:
    """The join of the rows of a partition by the references of both sides."""
    none = [looking_up(no_rows(of_table), pa.nulls(0, each.type)) for of_table, each in zip(sides.types, references, strict=True)]

    def paired(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, ManyToManyState | None]:
        left, right = (inputs.get(name, no) for name, no in zip(SIDES, none, strict=True))
        state: ManyToManyState | None = None

        def parts() -> Iterator[Joined]:
            nonlocal state
            if turn.is_only:
                yield from many_to_many(left, right, join, shape, condition)
            else:
                before = (turn.state or ManyToManyState())._replace(frontier=turn.frontier)
                state = yield from many_to_many_step(before, left, right, join, shape, condition)

        for joined in parts():
            yield from _given(joined, writer, turn, moving=True)
        return state

    return paired


def _given(
    joined: Joined, writer: BlockWriter, turn: Turn, moving: bool, finish: Callable[[ChangeBatch], ChangeBatch] | None = None
) -> Iterator[ChangeBatch]:
    """The batches of a part of a join; if rows move to other partitions, their halves go into the writer."""
    count(UNMATCHED, joined.unmatched)
    if moving:
        writer.send(HALVES, hashes(joined.halves.column("key")), _halves(joined.halves, turn))
    for batch in (joined.changes, *(() if moving else (rejoined(joined.halves),))):
        if len(batch):
            yield batch if finish is None else finish(batch)


def _halves(halves: pa.RecordBatch, turn: Turn) -> pa.RecordBatch:
    """The halves with the positions that they came with, which are the same in the partitions of both
    references.
    """
    if turn.came_at is None:
        return halves
    for name, by in (("came_at", "position"), ("came_until", "until")):
        column = halves.column(by)
        came_at = turn.came_at(integers(column.fill_null(0)))
        halves = halves.append_column(name, pa.array(came_at, mask=~valid(column)))
    return halves


def _moved(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[ChangeBatch, None, None]:
    """The changes of rows that moved."""
    batch = rejoined(inputs[HALVES])
    if len(batch):
        yield batch
