"""What is known of a table when a pipeline is built: the types of its keys and values, and what its positions are."""

from typing import Any, Literal, NamedTuple

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.typehints import TupleConstraint

from beam_joins.change import Change
from beam_joins.coders.change_batch import ChangeBatch
from beam_joins.coders.key import key_coder
from beam_joins.coders.windowed import WindowedCoder

Order = Literal["time", "sequence", "unknown"]
"""What a position is: the event time, a sequence of the source, or what only the author of the table knows."""

_MARK = "_beam_joins_table_type"


class TableType(NamedTuple):
    """Key type, value type and order of a table; ``Any`` and ``"unknown"`` where they are not known.

    The keys of a windowed table are ``Windowed[K]``, and ``key`` is K.
    """

    key: Any = Any
    value: Any = Any
    order: Order = "unknown"
    windowed: bool = False


def as_table(pcoll: PCollection[Any], table_type: TableType) -> PCollection[Any]:
    """The same collection, known to be a table of this type."""
    if pcoll.element_type is not ChangeBatch:
        pcoll.element_type = Change
    setattr(pcoll, _MARK, table_type)
    return pcoll


def table_type(pcoll: PCollection[Any]) -> TableType:
    """What is known of a table: what the transform that made it knew, or nothing."""
    marked: TableType = getattr(pcoll, _MARK, TableType())
    return marked


def table_key_coder(table: TableType, what: str) -> Coder:
    """The coder of a table's keys, windowed or not; raises ``ValueError`` as :func:`beam_joins.coders.key.key_coder` does."""
    coder = key_coder(table.key, what)
    return WindowedCoder(coder) if table.windowed else coder


def common_order(transform: str, *tables: TableType) -> Order:
    """The order of what is joined from these tables; raises ``ValueError`` if they are known to be ordered by different things."""
    known = {table.order for table in tables} - {"unknown"}
    if len(known) > 1:
        raise ValueError(
            f"{transform} joins a table ordered by a sequence with one ordered by event time, and their positions say nothing of each"
            " other: give sequence_by= to both tables, from one common sequence, or to neither"
        )
    return known.pop() if known else "unknown"


def common_key_type(transform: str, left: TableType, right: TableType) -> Any:
    """The type by which the keys of both tables are written; raises ``ValueError`` if they are known to be of two types."""
    if left.key == right.key:
        return left.key
    if Any in (left.key, right.key):
        return Any
    raise ValueError(f"{transform} joins keys of type {left.key} with keys of type {right.key}: they are never equal")


def common_windowing(transform: str, left: TableType, right: TableType) -> bool:
    """Whether both tables are windowed; raises ``ValueError`` if only one is."""
    if left.windowed != right.windowed:
        raise ValueError(
            f"{transform} joins a windowed table with one that is not, so their keys are never equal: use WindowedTableJoin"
        )
    return left.windowed


def two_tables(transform: str, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right table of a join; raises ``ValueError`` for anything else, and for windowed or unbounded input."""
    if not isinstance(pvalue, tuple) or len(pvalue) != 2:
        raise ValueError(f"{transform} takes two tables: (left, right) | {transform}(...)")
    require_bounded(transform, *pvalue)
    for table in pvalue:
        if isinstance(table.element_type, TupleConstraint):
            raise ValueError(
                f"{transform} joins tables, but got a collection of {table.element_type}: make a table with TableFromChangelog"
            )
    left, right = pvalue
    return left, right


def not_a_change(element: Any) -> ValueError:
    """The error of a table that holds anything but changes."""
    return ValueError(f"a table is a collection of Change, but has {element!r}: make a table with TableFromChangelog")


def require_bounded(transform: str, *pcolls: PCollection[Any]) -> None:
    """Raise ``ValueError`` for an input that the engine cannot replay: a windowed or an unbounded one."""
    for pcoll in pcolls:
        if not isinstance(pcoll, PCollection):
            raise ValueError(f"{transform} takes PCollections, not {type(pcoll).__name__}")
        if not isinstance(pcoll.windowing.windowfn, GlobalWindows):
            raise ValueError(
                f"{transform} needs its input in the global window, not in {pcoll.windowing.windowfn}:"
                " apply beam.WindowInto(beam.window.GlobalWindows()) before it"
            )
        if not pcoll.is_bounded:
            raise ValueError(f"{transform} takes bounded input only: read a bounded piece of the changelog")
