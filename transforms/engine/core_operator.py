"""An operator of the engine that feeds a core of :mod:`beam_joins`, record by record in the order of positions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from beam_joins.coders.block import read_blocks
from beam_joins.record import Core, Record
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.two_changes import TwoChanges

_RECORD = partial(tuple.__new__, Record)  # Record(...) without a call of a Python function


class CoreOperator:
    """What is done with the records of a partition: how they are read, their core, and what its outputs become."""

    def core(self) -> Core[Any, Any]:
        """A core for one routing key."""
        raise NotImplementedError

    def routes(self, records: Sequence[Record]) -> Iterable[bytes]:
        """The routing keys of records: by default their keys."""
        return [record.key for record in records]

    def finish(self, core: Any) -> Iterable[Any]:
        """What a core gives when the records of its routing key are at their end: by default nothing."""
        return ()

    def row_key(self, key: bytes, input: int) -> Any:
        """The key of a row of the given input, which is a table, as the user has it."""
        return key

    def write(self, output: Any, writer: BlockWriter) -> Any:
        """A core's output as an element of the main output, or ``None`` if it went into the writer."""
        raise NotImplementedError

    def replay(self, blocks: Iterable[bytes], writer: BlockWriter) -> Iterator[Any]:
        """Order the records of blocks and feed them to cores."""
        return self.feed(*order(blocks, self.routes), writer)

    def feed(self, records: Sequence[Record], ends: Iterable[int], writer: BlockWriter) -> Iterator[Any]:
        """Feed ordered records to cores; ``ends`` are the indices at which the records of a routing key end."""
        write = self.write
        start = 0
        for end in ends:
            core = self.core()
            while start < end:
                position, following = records[start].position, start + 1
                while following < end and records[following].position == position:
                    following += 1
                try:
                    for output in core.advance(position, records[start:following]):
                        element = write(output, writer)
                        if element is not None:
                            yield element
                except TwoChanges as error:
                    raise error.of_key(self.row_key(error.key, error.input)) from None
                start = following
            for output in self.finish(core):
                element = write(output, writer)
                if element is not None:
                    yield element


def order(blocks: Iterable[bytes], routes: Callable[[Sequence[Record]], Iterable[bytes]]) -> tuple[list[Record], list[int]]:
    """The records of blocks by (routing key, position, input), and the indices at which the records of a routing key end."""
    records: list[Record] = []
    positions, inputs = [], []
    for rows in read_blocks(blocks).values():
        columns = (rows[name].to_pylist() if name in rows.column_names else [b""] * len(rows) for name in Record._fields)
        records.extend(map(_RECORD, zip(*columns, strict=True)))
        positions.append(rows["position"].to_numpy())
        inputs.append(rows["input"].to_numpy())
    if not records:
        return [], []
    codes: dict[bytes, int] = {}
    groups = np.fromiter((codes.setdefault(route, len(codes)) for route in routes(records)), np.int64, len(records))
    by = np.lexsort((np.concatenate(inputs), np.concatenate(positions), groups))
    return [records[i] for i in by.tolist()], np.cumsum(np.bincount(groups)).tolist()
