"""Foreign-key joins with a small right table: its rows go to every worker as a side input, and left rows are
joined where they are.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from time import perf_counter_ns
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pipeline import AppliedPTransform
from apache_beam.pvalue import AsIter, PCollection

from beam_joins.coders.block import read_blocks, write_block
from beam_joins.functions.joiner import Join
from beam_joins.kernels.overlap import Rights
from beam_joins.kernels.overlap_events import Shape
from beam_joins.keys.key_columns import kinds
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.blocks.block_writer import MAIN, BlockWriter
from beam_joins.transforms.engine.blocks.emitter import Emitter
from beam_joins.transforms.engine.blocks.metrics import ROWS_IN, ROWS_OUT, TURN_MICROS, UNMATCHED, count
from beam_joins.transforms.engine.blocks.observed_kinds import keys_may_meet
from beam_joins.transforms.engine.construction.applied_transforms import main_inputs
from beam_joins.transforms.engine.construction.table_type import physical_of
from beam_joins.transforms.engine.joins import LEFT, RIGHT, LeftRows, Sides
from beam_joins.transforms.engine.stages.batch_references import LaidBatches, laid
from beam_joins.transforms.engine.stages.replay import BundleDoFn, Replay, Stage
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_rows import newest, no_rows
from beam_joins.transforms.engine.transform_outputs import Handling
from beam_joins.transforms.engine.turns.operator import Turn

PIECE_BYTES = 4 << 20
"""The bytes of a left batch that are joined at a time: the result may be several times as large."""


def is_small(table: PCollection[Any]) -> bool:
    """Whether a table is known to be small enough to be copied to every worker."""
    limit: int = table.pipeline.options.view_as(ReplayOptions).beam_joins_broadcast_bytes
    size = physical_of(table).bytes
    return size is not None and size <= limit


def waits_for(right: PCollection[Any], left: PCollection[Any]) -> bool:
    """Whether the right table as a side input would have to wait for the left one.

    Beam's direct runner never ends such a pipeline: it reads a collection together with all of its consumers, the broadcast join
    among them, which waits for its side input. It waits for the left table where the right one is behind a join of tables that
    come, as the left one does, from one collection, since the flattened sides of that join wait for all consumers; and
    where a consumer of the right table's collections waits for a side input of the left table's.
    """
    of_left, of_right = _upstream(left), _upstream(right)
    merges = (node for node in of_right if isinstance(node.transform, beam.Flatten))
    return any(of_left & _upstream(*merge.inputs) for merge in merges) or _is_waited_for(of_left, of_right)


def _is_waited_for(of_left: set[AppliedPTransform], of_right: set[AppliedPTransform]) -> bool:
    """Whether what is read together with the right table waits, through side inputs, for what the left table is made of."""
    some = next(iter(of_left | of_right), None)
    if some is None:
        return False
    waiting = [
        (_upstream(*main_inputs(node)), _upstream(*(side.pvalue for side in node.side_inputs))) for node in _with_side_inputs(some)
    ]
    read_together, waited_for = set(of_right), set[AppliedPTransform]()
    while further := [each for each in waiting if each[0] & read_together]:
        waiting = [each for each in waiting if each not in further]
        waited_for |= set[AppliedPTransform]().union(*(sides for _, sides in further))
        read_together |= waited_for
    return bool(waited_for & of_left)


def _with_side_inputs(node: AppliedPTransform) -> Iterator[AppliedPTransform]:
    """The transforms of a node's pipeline that have side inputs."""
    while node.parent is not None:
        node = node.parent
    nodes = [node]
    while nodes:
        nodes += (node := nodes.pop()).parts
        if node.side_inputs:
            yield node


def _upstream(*collections: PCollection[Any]) -> set[AppliedPTransform]:
    nodes: set[AppliedPTransform] = set()
    waiting = [each.producer for each in collections]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += [each.producer for each in (*node.inputs, *(side.pvalue for side in node.side_inputs)) if each.producer]
    return nodes


def broadcast_join(
    transform: str,
    sides: Sides,
    left_rows: LeftRows,
    right_columns: frozenset[str] | None,
    *,
    join: Join,
    shape: Shape,
    handling: Handling,
    keys: tuple[str, str],
    dropping: tuple[str, ...],
) -> tuple[PCollection[Any], dict[str, PCollection[Any]]]:
    """The batches of the joined table, and the outputs of the stage that gives them.

    As :func:`~beam_joins.transforms.engine.joins.joined_table`, where all changes of a left row are in one
    batch and ``shape`` says that they are given ``together``: so they are in the result.
    """
    blocks = sides.right | "Right" >> beam.Map(_block, columns=right_columns).with_output_types(bytes)
    # what typed columns hold was compared when the pipeline was built
    notes = () if all(of_table.is_typed for of_table in sides.types) else (LEFT, RIGHT)
    left, batches = laid(sides.left, "Left")
    stage = _Joining(
        lambda emitter: _JoinDoFn(batches, left_rows, no_rows(sides.types[1]), join, shape, handling.functions, bool(notes), emitter),
        blocks,
        to=(MAIN, *notes, *dropping, *handling.tags),
    )
    joined = left | "Join" >> stage
    handling.collect(joined)
    if notes:
        kinds_met = keys_may_meet(transform, LEFT, RIGHT, *keys)
        _ = tuple(joined[name] for name in notes) | "Kinds of keys" >> Replay(_nothing, check=kinds_met)
    return joined[MAIN], joined


def _nothing(inputs: dict[str, pa.Table], writer: BlockWriter, turn: Turn) -> Generator[Any, None, None]:
    yield from ()


def _block(batch: ChangeBatch, columns: frozenset[str] | None) -> bytes:
    return write_block(newest(batch, columns), RIGHT)


class _Joining(Stage):
    """Left batches, each with all blocks of the right table."""

    def __init__(self, dofn: Callable[[Emitter], beam.DoFn], blocks: PCollection[bytes], *, to: tuple[str, ...]) -> None:
        super().__init__(to, ChangeBatch)
        self._dofn = dofn
        self._blocks = blocks

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        return self._outputs(pcoll, self._dofn(self._emitter(pcoll)), AsIter(self._blocks))


class _JoinDoFn(BundleDoFn):
    """Arranges the right rows once a bundle."""

    def __init__(
        self,
        batches: LaidBatches,
        left_rows: LeftRows,
        no_right: pa.Table,
        join: Join,
        shape: Shape,
        functions: StageFunctions,
        noting: bool,
        emitter: Emitter,
    ) -> None:
        super().__init__(emitter)
        self._batches = batches
        self._left_rows = left_rows
        self._no_right = no_right
        self._join = join
        self._shape = shape
        self._functions = functions
        self._noting = noting

    def start_bundle(self) -> None:
        super().start_bundle()
        self._rights: Rights | None = None

    def process(self, element: Any, blocks: Iterable[bytes]) -> Iterator[Any]:
        if self._rights is None:
            self._rights = self._arranged(blocks)
        batch = self._batches.read(element)
        for piece in batch.pieces(max(1, PIECE_BYTES * len(batch) // max(1, batch.new.nbytes))):
            left = self._left_rows(piece, self._writer)
            if self._noting:
                self._writer.noted(LEFT).update(kinds(left.column("reference")))
            begin = perf_counter_ns()
            joined = self._rights.joined(pa.Table.from_batches([left]), self._join, self._shape)
            for metric, rows in ((ROWS_IN, len(left)), (ROWS_OUT, len(joined.changes)), (UNMATCHED, joined.unmatched)):
                count(metric, rows)
            count(TURN_MICROS, (perf_counter_ns() - begin) // 1000)
            if len(joined.changes):
                yield joined.changes
        self._batches.free(element)
        self._functions.give(self._writer)
        yield from self._emitter.emit(self._writer.pop_ready())

    def _arranged(self, blocks: Iterable[bytes]) -> Rights:
        # the direct runner gives a side input twice whose source feeds another stateful DoFn; no two blocks
        # of a table are equal
        rows = read_blocks(dict.fromkeys(blocks)).get(RIGHT, self._no_right)
        if self._noting:
            self._writer.noted(RIGHT).update(kinds(rows["key"].combine_chunks()))
        return Rights(rows)
