"""TableTableJoin: two tables on the same key (KIP-77)."""

from collections.abc import Callable
from typing import Any, Literal

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from coders.key import value_coder
from transforms.lookup_replay import LookupReplay
from transforms.options import choice, function
from transforms.replay import MAIN, Replay, Route, partition_count
from transforms.table_rows import table_rows
from transforms.table_type import (
    TableType,
    as_table,
    common_key_type,
    common_order,
    common_windowing,
    table_key_coder,
    table_type,
    two_tables,
)

How = Literal["inner", "left", "outer"]


class TableTableJoin(beam.PTransform[Any, PCollection[Any]]):
    """The rows of two tables with the same key: ``(PCollection[Change[K, V]], PCollection[Change[K, W]]) -> PCollection[Change[K, R]]``.

    * ``joiner(left value, right value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``how``: ``"inner"``; ``"left"`` keeps left rows without a right one, ``joiner(left value, None)``; ``"outer"`` keeps all rows,
      ``joiner(None, right value)`` too. The joiner is never called with both sides ``None``.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`transforms.replay`.

    Two windowed tables join on the same key and window. A change of either side joins the row anew, and a tombstone comes out only for a
    row that was there. A result has the larger timestamp of both sides. More tables are joined in a chain:
    ``((a, b) | TableTableJoin(...), c) | TableTableJoin(...)``.

    Raises ``ValueError`` at construction for a wrong option, and when applied to windowed or unbounded input, to tables ordered by
    different things, or to keys of different types or without a deterministic coder.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     stock = pipeline | "stock" >> beam.Create([Change("apple", None, 7, timestamp=1, position=1)])
    ...     price = pipeline | "price" >> beam.Create([Change("apple", None, 0.5, timestamp=2, position=2)])
    ...     _ = (stock, price) | TableTableJoin(lambda count, euros: count * (euros or 0), how="left") | beam.Map(print)
    Change(key='apple', old=None, new=0, timestamp=1, position=1)
    Change(key='apple', old=0, new=3.5, timestamp=2, position=2)
    """

    def __init__(self, joiner: Callable[[Any, Any], Any], *, how: How = "inner", partitions: int | None = None) -> None:
        super().__init__()
        self._joiner = function("joiner", joiner, "of the left and the right value")
        self._how: How = choice("how", how, How)
        self._partitions = partition_count(partitions)

    def expand(self, pvalue: Any) -> Any:
        """Apply the transform."""
        left, right = two_tables("TableTableJoin", pvalue)
        left_type, right_type = table_type(left), table_type(right)
        order = common_order("TableTableJoin", left_type, right_type)
        key_type = common_key_type("TableTableJoin", left_type, right_type)
        result_type = TableType(key_type, Any, order, common_windowing("TableTableJoin", left_type, right_type))
        keys = table_key_coder(result_type, "the key of TableTableJoin")
        values = value_coder(left_type.value), value_coder(right_type.value)
        lefts = left | "Left" >> Route(table_rows("left", keys, values[0]), to=("left",), partitions=self._partitions)
        rights = right | "Right" >> Route(table_rows("right", keys, values[1], input=1), to=("right",), partitions=self._partitions)
        operator = LookupReplay(self._joiner, self._how, values=values, result_key=lambda result: keys.decode(result.key))
        joined = (lefts["left"], rights["right"]) | "Join" >> Replay(operator, partitions=self._partitions, main_type=Change)
        return as_table(joined[MAIN], result_type)
