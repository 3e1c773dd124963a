"""The joins of tables: rows of both sides in one partition, their overlap there, and the way back of rows that moved."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.coders.block import read_blocks
from beam_joins.joiner import Join, narrowed
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import VALUES
from beam_joins.matching import Shape
from beam_joins.overlap import overlap
from beam_joins.references import listed_subscriptions, rejoined, subscriptions
from beam_joins.sorting import combine_chunks, valid
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.door import in_batches
from beam_joins.transforms.engine.keyed_rows import require_batch
from beam_joins.transforms.engine.notes import Check
from beam_joins.transforms.engine.outputs import Handling
from beam_joins.transforms.engine.referring import KeyColumn, References
from beam_joins.transforms.engine.replay import Replay, RowRouter
from beam_joins.transforms.engine.table_type import table_type
from beam_joins.two_changes import TwoChanges

LEFT, RIGHT, HALVES = "left", "right", "halves"

KeyPart = Callable[[pa.Array], pa.Array]
"""What a left row looks up, of its key."""

ValueType: TypeAlias = pa.DataType | None
"""The type of a table's values; ``None`` where it is not known."""


class Sides(NamedTuple):
    """The two tables of a join in batches, with the types of their values."""

    left: PCollection[Any]
    right: PCollection[Any]
    types: tuple[ValueType, ValueType]


def in_sides(left: PCollection[Any], right: PCollection[Any]) -> Sides:
    """Two tables as they come in."""
    left, right = in_batches(left, "Left in batches"), in_batches(right, "Right in batches")
    return Sides(left, right, (table_type(left).value_column, table_type(right).value_column))


def referring_rows(
    references: References,
    shape: Shape,
    columns: frozenset[str] | None,
    listed: KeyColumn | None = None,
    *,
    reason: str | None = "null_foreign_key",
) -> RowRouter:
    """The rows of a left table by what they refer to: one row each, or with ``listed``, which makes a column of keys, those of a list.

    Rows that refer to nothing are dropped, for a ``reason`` if there is one, where left rows are not kept.
    """

    def rows(batch: Any, arrival: int, writer: BlockWriter) -> None:
        require_batch(batch)
        given, failed = references(batch)
        new = valid(batch.new)
        if listed is None:
            lost = new & ~valid(given)[: len(batch)]
            asked = subscriptions(batch, given, keep_unmatched=shape.keeps_left)
        else:
            lost = new & np.array([all(key is None for key in keys or ()) for keys in given[: len(batch)]], np.bool_)
            asked = listed_subscriptions(batch, given, listed, keep_unmatched=shape.keeps_left)
        if reason is not None and not shape.keeps_left:
            _drop(reason, batch, lost & ~failed, writer)
        reference = asked.column("reference")
        writer.noted(LEFT).update(kinds(reference))
        where = np.where(valid(reference), hashes(reference), hashes(asked.column("key")))
        value = asked.schema.get_field_index("value")
        writer.send(LEFT, where, asked.set_column(value, "value", narrowed(asked.column("value"), columns)))

    return rows


def joined_table(
    lefts: PCollection[Any],
    rights: PCollection[Any],
    *,
    join: Join,
    shape: Shape,
    types: tuple[ValueType, ValueType],
    handling: Handling,
    check: Check,
    looks_up: KeyPart | None = None,
    rejoin: bool = False,
    finish: Callable[[ChangeBatch], ChangeBatch] | None = None,
) -> PCollection[Any]:
    """The batches of a joined table, of the blocks of both sides.

    ``looks_up`` says what a left row looks up of its key, where its block does not say it. Left rows may move from one reference to another where the result has
    their keys: their halves are put together in one more stage, or with ``rejoin``, where all references of a row are in one partition, at once.
    ``finish`` maps the batches that come out.
    """
    moving = shape.result == "left_key" and looks_up is None and not rejoin
    operator = _Overlap(join, shape, types, looks_up, moving, finish)
    joined = (lefts, rights) | "Join" >> Replay(
        handling.functions.replay(operator),
        to=(MAIN, *((HALVES,) if moving else ()), *handling.tags),
        main_type=ChangeBatch,
        check=check,
    )
    handling.collect(joined)
    if not moving:
        table: PCollection[Any] = joined[MAIN]
        return table
    moved = (joined[HALVES],) | "Moved" >> Replay(_Rejoin(), main_type=ChangeBatch)
    together: PCollection[Any] = (joined[MAIN], moved[MAIN]) | "Joined" >> beam.Flatten()
    together.element_type = ChangeBatch
    return together


class _Overlap:
    """The join of the rows of a partition."""

    def __init__(
        self,
        join: Join,
        shape: Shape,
        types: tuple[ValueType, ValueType],
        looks_up: KeyPart | None,
        moving: bool,
        finish: Callable[[ChangeBatch], ChangeBatch] | None,
    ) -> None:
        self._join = join
        self._shape = shape
        self._types = types
        self._looks_up = looks_up
        self._moving = moving
        self._finish = finish

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[ChangeBatch]:
        inputs = read_blocks(blocks)
        keys = next(iter(inputs.values())).schema.field("key").type
        left, right = (
            inputs[side] if side in inputs else no_rows(keys, self._types[i] or VALUES) for i, side in enumerate((LEFT, RIGHT))
        )
        if "reference" not in left.column_names:
            reference = left["key"] if self._looks_up is None else self._looks_up(combine_chunks(left["key"]))
            left = left.append_column("reference", reference)
        if "moved" not in left.column_names:
            left = left.append_column("moved", pa.nulls(len(left), pa.bool_()))
        try:
            joined = overlap(left, right, self._join, self._shape)
        except TwoChanges as error:
            raise error.of_key(error.key) from None
        if self._moving:
            writer.send(HALVES, hashes(joined.halves.column("key")), joined.halves)
        for batch in (joined.changes, *(() if self._moving else (rejoined(joined.halves),))):
            if len(batch):
                yield batch if self._finish is None else self._finish(batch)


class _Rejoin:
    """The changes of rows that moved."""

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[ChangeBatch]:
        batch = rejoined(read_blocks(blocks)[HALVES])
        if len(batch):
            yield batch


def no_rows(key: pa.DataType, value: pa.DataType) -> pa.Table:
    """The rows of a side that has no batch."""
    columns = {"key": key, "value": value, "timestamp": pa.int64(), "position": pa.int64()}
    return pa.table({name: pa.nulls(0, kind) for name, kind in columns.items()})


def _drop(reason: str, batch: ChangeBatch, lost: Any, writer: BlockWriter) -> None:
    def changes() -> Iterator[tuple[Any, int]]:
        return ((change, change.timestamp) for change, dropped in zip(batch, lost.tolist(), strict=True) if dropped)

    writer.drop_rows(reason, int(lost.sum()), changes)
