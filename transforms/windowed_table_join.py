"""WindowedTableJoin: the joins in which windowed tables take part ("Join Semantics")."""

from collections.abc import Callable
from typing import Any, Literal

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection

from beam_joins.change import Change
from beam_joins.coders.key import value_coder
from beam_joins.coders.windowed import read_window, source_key, write_windowed
from beam_joins.function_failed import FunctionFailed
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import MAIN
from beam_joins.transforms.engine.lookup_replay import LookupReplay
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.options import choice, function
from beam_joins.transforms.engine.outputs import HandlesExceptions
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.table_rows import table_rows
from beam_joins.transforms.engine.table_type import (
    TableType,
    as_table,
    common_key_type,
    common_order,
    perhaps_windowed,
    table_key_coder,
    table_type,
    two_tables,
)
from beam_joins.transforms.table_to_records import in_records
from beam_joins.windowed import Window

How = Literal["inner", "left", "outer"]
_NAME = "WindowedTableJoin"


class WindowedTableJoin(HandlesExceptions):
    """Two tables of which one or both are windowed; both are partitioned by the source key, so that windows of one key can meet.

    ========================  ===============  ==================  =====================================================
    left                      right            how                 a left row looks up
    ========================  ===============  ==================  =====================================================
    ``Change[Windowed[K]]``   the same         inner, left, outer  the same window
    ``Change[Windowed[K]]``   the same         inner, left         the window ``shift(window)``, such as the week before
    ``Change[Windowed[K]]``   ``Change[K]``    inner, left         the row of its source key
    ``Change[K]``             ``Change[Win…]`` inner, left         the window ``window_of(key, value)``; ``None``: nothing
    ========================  ===============  ==================  =====================================================

    The result is a table with the left table's keys. A change of either side updates every result that it is part of: one change of a
    table's row updates every window of its key. ``joiner(left value, right value)`` gives the result's value, ``None`` for no row. A result
    has the larger timestamp of both sides. ``partitions`` is as in :mod:`beam_joins.transforms.engine.partitions`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` for a wrong option at construction, for one that does not fit the tables when applied to them, and in the run for
    two changes of one row at one position. A table that is no longer known to be windowed: :func:`beam_joins.as_windowed_table`.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Windowed, as_windowed_table
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     counts = [Change(Windowed("home", Window(start, start + 7)), None, 10 + start, start, start) for start in (0, 7)]
    ...     weeks = as_windowed_table(pipeline | beam.Create(counts))
    ...     growth = (weeks, weeks) | WindowedTableJoin(lambda now, before: (now, before), shift=lambda week: week.shift(-7))
    ...     _ = growth | beam.Map(lambda change: print(change.key.window, change.new))
    Window(start=0, end=7) (10, None)
    Window(start=7, end=14) (17, 10)
    """

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        *,
        how: How = "left",
        shift: Callable[[Window], Window] | None = None,
        window_of: Callable[[Any, Any], Window | None] | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if shift is not None and window_of is not None:
            raise ValueError("give shift, for two windowed tables, or window_of, for a table and a windowed table, not both")
        for name, option in (("shift", shift), ("window_of", window_of)):
            if option is not None and not callable(option):
                raise ValueError(f"{name}={option!r}: give a function that gives a Window")
        if how == "outer" and (shift or window_of):
            raise ValueError("how='outer' joins the same window: choose 'inner' or 'left' with shift or window_of")
        self._joiner = function("joiner", joiner, "of the left and the right value")
        self._how: How = choice("how", how, How)
        self._shift = shift
        self._window_of = window_of
        self._partitions = partition_count(partitions)

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The joined table."""
        functions = self.handling.functions
        left, right = two_tables(_NAME, pvalue)
        left, right = in_records(left, "Left in records"), in_records(right, "Right in records")
        types = table_type(left), table_type(right)
        self._check(*types)
        result = TableType(common_key_type(_NAME, *types), Any, common_order(_NAME, *types), types[0].windowed)
        keys = [table_key_coder(result._replace(windowed=table.windowed), f"the key of {_NAME}") for table in types]
        values = value_coder(types[0].value), value_coder(types[1].value)
        routes = [source_key if table.windowed else _itself for table in types]
        blocks = tuple(
            table | to.title() >> Route(
                table_rows(to, keys[i], values[i], input=i, route=routes[i]), to=(to,), partitions=self._partitions
            )
            for i, (to, table) in enumerate((("left", left), ("right", right)))
        )  # fmt: skip
        operator = LookupReplay(
            self._joiner,
            self._how,
            functions=functions,
            values=values,
            result_key=lambda key: keys[0].decode(key.key),
            row_key=lambda key, side: keys[side].decode(key),
            lookup=self._lookup(*types, keys[0], values[0]),
            route=lambda record: routes[record.input](record.key),
            shared_keys=types[0].windowed and types[1].windowed and self._shift is None,
        )
        together = (blocks[0]["left"], blocks[1]["right"])
        joined = together | "Join" >> Replay(
            functions.replay(operator),
            to=(MAIN, *self.handling.tags),
            partitions=self._partitions,
            main_type=Change,
            check=keys_may_meet(_NAME, "left", "right", "left table's keys", "right table's keys"),
        )
        self.handling.collect(joined)
        return as_table(joined[MAIN], result)

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

    def _lookup(self, left: TableType, right: TableType, keys: Coder, values: Coder) -> Callable[[Record], bytes | None]:
        functions = self.handling.functions
        if self._window_of is not None:
            window_of = functions.of_rows(functions.function("window_of", self._window_of))

            def named(row: Record) -> bytes | None:
                key, value = keys.decode(row.key), values.decode(row.value)
                window = window_of(key, value)
                window_of.report((key, value), row.timestamp)
                return None if window is None else write_windowed(row.key, window)

            return named
        if self._shift is not None:
            shift = functions.function("shift", self._shift)

            def shifted(row: Record) -> bytes | None:
                try:
                    return write_windowed(source_key(row.key), shift(read_window(row.key)))
                except FunctionFailed as failed:
                    functions.caught((keys.decode(row.key), values.decode(row.value)), failed, row.timestamp)
                    return None

            return shifted
        return (lambda row: row.key) if right.windowed else (lambda row: source_key(row.key))


def _itself(key: bytes) -> bytes:
    return key
