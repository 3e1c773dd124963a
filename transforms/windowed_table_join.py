"""WindowedTableJoin: joins two tables, one or both windowed ("Join Semantics")."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.elements.windowed import Grid, Window, Windowed
from beam_joins.functions.joiner import Joiner, columns_read, joiner_in_columns
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.overlap_events import Shape
from beam_joins.keys.nested import parts_of
from beam_joins.options.join_types import WindowedHow
from beam_joins.transforms.engine.construction.input_checks import (
    common_key_type,
    common_order,
    perhaps_windowed,
    require_windows_meet,
    two_tables,
)
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.output_types import Handled, Table, TwoTables
from beam_joins.transforms.engine.construction.table_type import CHECKED, WHOLE, TableType, as_table, table_type
from beam_joins.transforms.engine.joins import (
    LEFT,
    RIGHT,
    KeyPart,
    by_reference,
    in_sides,
    joined_table,
    key_joined_table,
    referring_rows,
)
from beam_joins.transforms.engine.stages.foreign_keys import keys_like, looked_up_windows
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import batch_rows
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions

_NAME = "WindowedTableJoin"
_WINDOWS_TRIED = 60


class WindowedTableJoin(HandlesExceptions[TwoTables, Table, Handled[Table]]):
    """Joins two tables, one or both windowed. Both are partitioned by the source key, so that windows of one
    key can meet.

    | left | right | how | a left row looks up |
    |---|---|---|---|
    | keyed by ``Windowed[K]`` | the same | inner, left, outer | the same window |
    | keyed by ``Windowed[K]`` | the same | inner, left | the window ``shift(window)``, such as the week before |
    | keyed by ``Windowed[K]`` | keyed by ``K`` | inner, left | the row of its source key |
    | keyed by ``K`` | by ``Windowed`` | inner, left | the window ``window_of(key, value)``; ``None``: nothing |

    The result is a table with the left table's keys. A change of either side updates all of its results: one
    change of a table's row updates every window of its key. The timestamp of a result is the larger of both
    sides'.

    ``joiner(left value, right value)`` returns the result's value, or ``None`` for no row. It may be of
    columns, or ``with_key(fn)``; ``schema`` declares the results of a joiner of one record, as in
    :class:`~beam_joins.TableTableJoin`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` for a wrong option at construction, for an option that does not fit the tables when
    applied, and in the run for two changes of one row at one position. For a table that has lost its windowed
    type use :func:`beam_joins.as_windowed_table`.

    >>> from datetime import timedelta
    >>> import apache_beam as beam
    >>> from beam_joins import Change, Windowed, as_windowed_table
    >>> day = 86_400_000_000
    >>> with beam.Pipeline() as pipeline:
    ...     windows = [Window(start * day, (start + 7) * day) for start in (0, 7)]
    ...     counts = [Change(Windowed("home", window), None, 10 + n, window.start, window.start) for n, window in enumerate(windows)]
    ...     weeks = as_windowed_table(pipeline | beam.Create(counts))
    ...     growth = (weeks, weeks) | WindowedTableJoin(
    ...         lambda now, before: (now, before), how="left", shift=lambda week: week.shift(-timedelta(days=7))
    ...     )
    ...     _ = growth | beam.FlatMap(lambda batch: batch) | beam.Map(lambda change: print(change.key.window.start // day, change.new))
    0 (10, None)
    7 (11, 10)
    """

    def __init__(
        self,
        joiner: Joiner,
        *,
        how: WindowedHow = "inner",
        shift: Callable[[Window], Window] | None = None,
        window_of: Callable[[Any, Any], Window | None] | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        if shift is not None and window_of is not None:
            raise ValueError("give shift, for two windowed tables, or window_of, for a table and a windowed table, not both")
        for name, option in (("shift", shift), ("window_of", window_of)):
            if option is not None and not callable(option):
                raise ValueError(f"{name}={option!r}: give a function that gives a Window")
        if how == "outer" and (shift or window_of):
            raise ValueError("how='outer' joins the same window: choose 'inner' or 'left' with shift or window_of")
        joiner_in_columns(joiner, schema=schema)
        self._joiner = joiner
        self._how: WindowedHow = choice("how", how, WindowedHow)
        self._shift = shift
        self._window_of = window_of
        self._schema = schema

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The joined table."""
        left, right = two_tables(_NAME, pvalue)
        self._check(table_type(left), table_type(right))
        sides = in_sides(left if self._window_of is None else prepared(left, needs="checked"), right)
        functions, types = self.handling.functions, sides.types
        join = joiner_in_columns(self._joiner, functions, self._schema, types=sides.value_types)
        common = common_key_type(_NAME, *types)
        columns = columns_read(self._joiner)
        result = TableType(types[0].key, join.type, common_order(_NAME, *types), types[0].windowed, types[0].windows)
        if types[0].windowed and types[1].windowed and self._shift is None:
            tables = {LEFT: sides.left, RIGHT: sides.right}
            same = key_joined_table(_NAME, tables, columns, join=join, hows=[self._how], handling=self.handling)
            return as_table(same, result._replace(key=common), WHOLE)
        shape = Shape(self._how)
        looks_up: KeyPart | pa.DataType = _source
        rows = batch_rows(LEFT, columns[0])
        if self._shift is not None or self._window_of is not None:
            keys = keys_like(TableType(common, windowed=True), "the key")
            references = looked_up_windows(self._looked_up(), functions, types[0], keys)
            looks_up, rows = references.type, by_reference(referring_rows(references, shape, types[0], columns[0], reason=None))
        joined, _ = joined_table(
            _NAME,
            sides,
            rows,
            (columns[0], columns[1]),
            join=join,
            shape=shape,
            handling=self.handling,
            looks_up=looks_up,
            rejoin=True,
        )
        return as_table(joined, result, WHOLE if self._window_of is None else CHECKED)

    def _looked_up(self) -> Callable[[Any, Any], Any]:
        """A function that gives the key of the windowed table that a left row looks up."""
        functions = self.handling.functions
        shift, window_of = functions.function("shift", self._shift), functions.function("window_of", self._window_of)

        def looked_up(key: Any, value: Any) -> Any:
            if window_of is None:
                return Windowed(key.key, shift(key.window))
            window = window_of(key, value)
            return None if window is None else Windowed(key, window)

        return looked_up

    def _check(self, left: TableType, right: TableType) -> None:
        again = perhaps_windowed(left, right)
        if not left.windowed and not right.windowed:
            raise ValueError(f"{_NAME} got no windowed table: make one with WindowedAggregate, or use TableTableJoin{again}")
        if self._shift is not None and not (left.windowed and right.windowed):
            raise ValueError(f"shift takes a window to another: both tables must be windowed{again}")
        if (self._window_of is not None) != (not left.windowed):
            raise ValueError(
                f"window_of names the window that a row of a table without windows looks up: give it there, and only there{again}"
            )
        if self._shift is None:
            require_windows_meet(_NAME, left.windows, right.windows)
        elif left.windows is not None and right.windows is not None:
            _require_shifted_meet(self._shift, left.windows, right.windows)
        if self._how == "outer" and not (left.windowed and right.windowed):
            raise ValueError(f"how='outer' joins two windowed tables on the same window: choose 'inner' or 'left'{again}")


def _require_shifted_meet(shift: Callable[[Window], Window], left: Grid, right: Grid) -> None:
    """Raise ``ValueError`` if ``shift`` takes none of some windows of the left table to one of the right
    table's.
    """
    starts = (left.offset + n * left.period for n in range(_WINDOWS_TRIED))
    shifted = [shift(Window(start, start + left.size)) for start in starts]
    if all(isinstance(window, Window) and not right.has(window) for window in shifted):
        raise ValueError(
            f"{_NAME} joins {left} with {right}, and shift gives none of them, but {shifted[0]} for "
            f"{Window(left.offset, left.offset + left.size)}:"
            " give a shift to the right table's windows"
        )


def _source(keys: pa.Array) -> pa.Array:
    return parts_of(keys)[0]
