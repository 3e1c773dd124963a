"""Checks of input when the pipeline is built: the engine refuses input that it does not support."""

import logging
import re
from collections.abc import Sequence
from typing import Any, Final

from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.typehints import TupleConstraint

from beam_joins.coders.key import common_type, type_name
from beam_joins.elements.change import Change
from beam_joins.elements.windowed import Grid
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.element_types import is_of_others
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.runner_abilities import require_able
from beam_joins.transforms.engine.construction.table_type import NOT_KNOWN_WINDOWED, Order, TableType, begins_anew

_CLASS: Final = re.compile(r"<class '(?:builtins\.)?([^']+)'>")
MAKE_A_TABLE: Final = "make a table with TableFromChangelog(key=...), or read one with ReadChangelog"
_log = logging.getLogger(__name__)


def require_collections(transform: str, *pcolls: Any) -> None:
    """Raise ``ValueError`` for anything that is no collection."""
    for pcoll in pcolls:
        if not isinstance(pcoll, PCollection):
            raise ValueError(f"{transform} takes PCollections, not {type(pcoll).__name__}")


def require_tables(transform: str, *tables: Any, names: Sequence[str] = ()) -> None:
    """Raise ``ValueError`` for anything that is known to be no table; of several tables, which have ``names``, it says which."""
    require_collections(transform, *tables)
    for number, table in enumerate(tables):
        if isinstance(table.element_type, TupleConstraint) or is_of_others(table.element_type, Change, ChangeBatch):
            which = f"{names[number]}, the output of {label_of_output(table)!r}, is none: " if names else ""
            raise ValueError(f"{transform}: {which}a table is a collection of Change, but has {elements_of(table)}: {MAKE_A_TABLE}")


def label_of_output(pcoll: PCollection[Any]) -> str:
    """The label of the outermost transform that a collection is an output of.

    >>> import apache_beam as beam
    >>> label_of_output(beam.Pipeline() | "rows" >> beam.Create([7]))
    'rows'
    """
    made = pcoll.producer
    while made is not None and made.parent is not None and pcoll in made.parent.outputs.values():
        made = made.parent
    return "a pipeline" if made is None else str(made.full_label)


def elements_of(pcoll: PCollection[Any]) -> str:
    """The elements of a collection by their type.

    >>> import apache_beam as beam
    >>> elements_of(beam.Pipeline() | beam.Create([{"id": 7}]))
    'Dict[str, int]'
    """
    hint = pcoll.element_type
    return (type_name(hint) if isinstance(hint, type) else _CLASS.sub(r"\1", repr(hint))).replace("pyarrow.lib.", "pyarrow.")


def _shown(windows: Any) -> str:
    """Windows as they are written: ``FixedWindows(size=60)``."""
    options = (f"{name}={value}" for name, value in vars(windows).items() if value not in (None, 0))
    return f"{type(windows).__name__}({', '.join(options)})"


def require_global(transform: str, *pcolls: PCollection[Any]) -> None:
    """Raise ``ValueError`` for input that the engine cannot replay: windowed input, or input that its runner
    would not replay right.
    """
    require_collections(transform, *pcolls)
    for pcoll in pcolls:
        if not isinstance(pcoll.windowing.windowfn, GlobalWindows):
            raise ValueError(
                f"{transform} needs its input in the global window, not in {_shown(pcoll.windowing.windowfn)}:"
                " apply beam.WindowInto(beam.window.GlobalWindows()) before it"
            )
        require_able(transform, pcoll)


def require_bounded(transform: str, remedy: str, *pcolls: PCollection[Any]) -> None:
    """Raise ``ValueError``, which ends with the ``remedy``, for unbounded input."""
    if not all(pcoll.is_bounded for pcoll in pcolls):
        raise ValueError(f"{transform} takes bounded input only, as unbounded input has no end: {remedy}")


def warn_of_void_rows(table: PCollection[Any]) -> None:
    """Warn of the rows of earlier runs for which the elements of the transform that is being applied have no word, where the
    table begins anew.
    """
    if (position := begins_anew(table)) is not None:
        _log.warning(
            "%s: the table begins anew at position %d: rows that earlier runs gave, and that this run does not give again, are void",
            label_of(table.pipeline),
            position,
        )


def perhaps_windowed(*tables: TableType) -> str:
    """A hint for messages about tables that are not windowed: a table of unknown type may have been windowed.
    Empty where there is no such table.
    """
    return f" ({NOT_KNOWN_WINDOWED})" if any(not table.windowed and table.order == "unknown" for table in tables) else ""


def require_one_order(table: TableType) -> None:
    """Raise ``ValueError`` for a table with some rows ordered by a sequence and others by event time."""
    if table.order == "mixed":
        raise ValueError(
            "a table ordered by a sequence and one ordered by event time are one table behind a Flatten, and their "
            "positions say nothing of each other:"
            " give sequence_by= to both tables, from one common sequence, or to neither"
        )


def common_order(transform: str, *tables: TableType) -> Order:
    """The order of the result of these tables; raises ``ValueError`` if they are known to be ordered by
    different things.
    """
    orders = {table.order for table in tables} - {"unknown", "first"}
    for table in tables:
        require_one_order(table)
    if len(orders) > 1:
        raise ValueError(
            f"{transform} joins a table ordered by a sequence with one ordered by event time, and their positions say nothing of each"
            " other: give sequence_by= to both tables, from one common sequence, or to neither"
        )
    if not orders:  # changes that a user has made, whose positions are of one kind
        return "first" if all(table.order == "first" for table in tables) else "unknown"
    if any(table.order == "unknown" for table in tables):
        _log.warning(
            "%s cannot check that its tables are ordered by the same, event time or one sequence: nothing is known of "
            "one of them, as behind a"
            " beam.Map of your own; use MapTable or FilterTable there, or say .with_output_types(table.element_type)",
            transform,
        )
    return orders.pop()


def common_key_type(transform: str, left: TableType, right: TableType, left_keys: str = "keys") -> Any:
    """The type by which the keys of both tables are written; raises ``ValueError`` if they are of types that
    are never equal.

    ``left_keys`` names the left ones in the message.
    """
    common = common_type(left.key, right.key)
    if common is None:
        raise ValueError(
            f"{transform} joins {left_keys} of type {type_name(left.key)} with keys of type {type_name(right.key)}: "
            "they are never equal;"
            " convert one of them"
        )
    return common


def common_windowing(transform: str, left: TableType, right: TableType) -> bool:
    """Whether both tables are windowed; raises ``ValueError`` if only one is."""
    if left.windowed != right.windowed:
        raise ValueError(
            f"{transform} joins a windowed table with one that is not, so their keys are never equal: use WindowedTableJoin"
            + perhaps_windowed(left, right)
        )
    require_windows_meet(transform, left.windows, right.windows)
    return left.windowed


def require_windows_meet(transform: str, left: Grid | None, right: Grid | None) -> None:
    """Raise ``ValueError`` for two tables without a common window."""
    if left is not None and right is not None and not left.meets(right):
        raise ValueError(
            f"{transform} joins {left} with {right}, which are never the same window: give both aggregates one window "
            "function, or WindowedTableJoin a shift"
        )


def two_inputs(transform: str, pvalue: Any, what: str) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right input; raises ``ValueError`` for anything else, and for input that the engine
    does not take.
    """
    if not isinstance(pvalue, tuple) or len(pvalue) != 2:
        raise ValueError(f"{transform} takes {what} | {transform}(...)")
    require_global(transform, *pvalue)
    left, right = pvalue
    return left, right


def two_tables(transform: str, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right table of a join; raises ``ValueError`` for anything else, and for input that the
    engine does not take.
    """
    left, right = two_inputs(transform, pvalue, "two tables: (left, right)")
    require_tables(transform, left, right, names=("the left table", "the right table"))
    return left, right


def tables_by_name(transform: str, pvalue: Any, names: Sequence[str]) -> dict[str, PCollection[Any]]:
    """The tables of a join by their names, of a tuple or a dict; raises ``ValueError`` for anything else, and for
    input that the engine does not take.
    """
    if isinstance(pvalue, dict) and {*pvalue} == {*names}:
        pvalue = tuple(pvalue[name] for name in names)
    if not isinstance(pvalue, tuple) or len(pvalue) != len(names):
        count = "two" if len(names) == 2 else len(names)
        raise ValueError(f"{transform} takes {count} tables: ({', '.join(names)}) | {transform}(...)")
    require_global(transform, *pvalue)
    require_tables(transform, *pvalue, names=[f"the {name} table" for name in names])
    return dict(zip(names, pvalue, strict=True))
