"""WindowedTableJoin: the joins in which windowed tables take part ("Join Semantics")."""

from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.batch import ChangeBatch
from beam_joins.joiner import Joiner, columns_read, joiner_in_columns
from beam_joins.keys.nested import parts_of
from beam_joins.matching import Shape
from beam_joins.transforms.engine.checked_table import checked_table
from beam_joins.transforms.engine.joins import LEFT, RIGHT, KeyPart, in_sides, joined_table, referring_rows
from beam_joins.transforms.engine.keyed_rows import table_rows
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.options import choice
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.referring import References, Referred, keys_like, of_values
from beam_joins.transforms.engine.replay import Route
from beam_joins.transforms.engine.table_type import (
    TableType,
    as_table,
    common_key_type,
    common_order,
    perhaps_windowed,
    table_type,
    two_tables,
)
from beam_joins.typed_rows import Schema
from beam_joins.windowed import Window, Windowed

WindowedHow = Literal["inner", "left", "outer"]
_NAME = "WindowedTableJoin"


class WindowedTableJoin(HandlesExceptions):
    """Two tables of which one or both are windowed; both are partitioned by the source key, so that windows of one key can meet.

    ========================  ===============  ==================  =====================================================
    left                      right            how                 a left row looks up
    ========================  ===============  ==================  =====================================================
    keyed by ``Windowed[K]``  the same         inner, left, outer  the same window
    keyed by ``Windowed[K]``  the same         inner, left         the window ``shift(window)``, such as the week before
    keyed by ``Windowed[K]``  keyed by ``K``   inner, left         the row of its source key
    keyed by ``K``            by ``Windowed``  inner, left         the window ``window_of(key, value)``; ``None``: nothing
    ========================  ===============  ==================  =====================================================

    The result is a table with the left table's keys. A change of either side updates every result that it is part of: one change of a
    table's row updates every window of its key. A result has the larger timestamp of both sides.

    ``joiner(left value, right value)`` gives the result's value, ``None`` for no row; it may be of columns, or ``with_key(fn)``, and ``schema``
    says what one of records gives, as in :class:`~beam_joins.TableTableJoin`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` for a wrong option at construction, for one that does not fit the tables when applied to them, and in the run for
    two changes of one row at one position. A table that is no longer known to be windowed: :func:`beam_joins.as_windowed_table`.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change, Windowed, as_windowed_table
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     counts = [Change(Windowed("home", Window(start, start + 7)), None, 10 + start, start, start) for start in (0, 7)]
    ...     weeks = as_windowed_table(pipeline | beam.Create(counts))
    ...     growth = (weeks, weeks) | WindowedTableJoin(lambda now, before: (now, before), how="left", shift=lambda week: week.shift(-7))
    ...     _ = growth | beam.FlatMap(lambda batch: batch) | beam.Map(lambda change: print(change.key.window, change.new))
    Window(start=0, end=7) (10, None)
    Window(start=7, end=14) (17, 10)
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
        known = tuple(map(table_type, two_tables(_NAME, pvalue)))
        self._check(*known)
        result = TableType(common_key_type(_NAME, *known), order=common_order(_NAME, *known), windowed=known[0].windowed)
        left, right, types = in_sides(*pvalue)
        functions, columns = self.handling.functions, columns_read(self._joiner)
        join = joiner_in_columns(self._joiner, functions, self._schema, types=types)
        same_window = known[0].windowed and known[1].windowed and self._shift is None
        shape = Shape(self._how, "both", "same_key" if same_window else "left_key")
        looks_up: KeyPart | None = None
        if self._shift is None and self._window_of is None:
            looks_up = _itself if same_window else _source
            rows = table_rows(LEFT, columns[0])
        else:
            if self._window_of is not None:
                left = checked_table(left)
            rows = referring_rows(self._window_looked_up(result), shape, columns[0], reason=None)
        lefts = left | "Left" >> Route(functions.route(rows), to=(LEFT, *self.handling.tags))
        self.handling.collect(lefts)
        joined = joined_table(
            lefts[LEFT],
            (right | "Right" >> Route(table_rows(RIGHT, columns[1]), to=(RIGHT,)))[RIGHT],
            join=join,
            shape=shape,
            types=types,
            handling=self.handling,
            check=keys_may_meet(_NAME, LEFT, RIGHT, "left table's keys", "right table's keys"),
            looks_up=looks_up,
            rejoin=True,
        )
        return as_table(joined, result._replace(value=Any if join.type is None else join.type))

    def _window_looked_up(self, result: TableType) -> References:
        """The keys of the windowed table that left rows look up."""
        functions = self.handling.functions
        shift, window_of = functions.function("shift", self._shift), functions.function("window_of", self._window_of)

        def looked_up(key: Any, value: Any) -> Any:
            if window_of is None:
                return Windowed(key.key, shift(key.window))
            window = window_of(key, value)
            return None if window is None else Windowed(key, window)

        keys = keys_like(result._replace(windowed=True), "the key")

        def references(batch: ChangeBatch) -> Referred:
            given, failed = of_values(batch, looked_up, functions, lambda change: (change.key, change.new))
            return Referred(keys(given), failed)

        return references

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
        if self._how == "outer" and not (left.windowed and right.windowed):
            raise ValueError(f"how='outer' joins two windowed tables on the same window: choose 'inner' or 'left'{again}")


def _itself(keys: pa.Array) -> pa.Array:
    return keys


def _source(keys: pa.Array) -> pa.Array:
    return parts_of(keys)[0]
