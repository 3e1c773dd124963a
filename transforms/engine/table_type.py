"""What is known of a table when a pipeline is built: the types of its keys and values, and what its positions are."""

from typing import Any, Literal, NamedTuple

from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.typehints import TupleConstraint

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.coders.key import common_type, key_coder, type_name
from beam_joins.coders.windowed import WindowedCoder
from beam_joins.windowed import Windowed

Order = Literal["time", "sequence", "unknown"]
"""What a position is: the event time, a sequence of the source, or unknown."""

_MARK = "_beam_joins_table_type"
_SAY_AGAIN = "behind a beam.Map, Reshuffle or Flatten of your own that is forgotten, so use MapTable or FilterTable there, or as_windowed_table(table)"


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


def as_windowed_table(table: PCollection[Any]) -> PCollection[Any]:
    """The same table, known to be windowed again: a ``PCollection[Change[Windowed[K], V]]`` behind a step that is not of this library.

    A windowed table is known by the transform that made it. Behind a ``beam.Map``, ``Reshuffle`` or ``Flatten`` of your own nothing is known
    any more, and what needs its windows refuses it; after ``MapTable`` and ``FilterTable`` it is still known. Raises ``ValueError`` for what
    cannot be one.

    >>> import apache_beam as beam
    >>> from beam_joins import Window, Windowed
    >>> counts = beam.Pipeline() | beam.Create([Change(Windowed("home", Window(0, 7)), None, 10, timestamp=1, position=1)])
    >>> table_type(as_windowed_table(counts)).windowed
    True
    """
    if not isinstance(table, PCollection) or table.element_type is ChangeBatch or isinstance(table.element_type, TupleConstraint):
        raise ValueError(f"as_windowed_table takes a collection of changes keyed by Windowed, not {table}")
    known = table_type(table)
    return as_table(table, known._replace(key=Any if known.key is Windowed else known.key, windowed=True))


def not_known_windowed(key: Any) -> ValueError:
    """The error of a table whose keys turn out to be windowed."""
    return ValueError(f"the table has the key {key!r} and is not known to be a windowed table: {_SAY_AGAIN}")


def perhaps_windowed(*tables: TableType) -> str:
    """What a message about tables that are not windowed says too if one of them may have been: nothing is known of it."""
    return f" ({_SAY_AGAIN})" if any(not table.windowed and table.order == "unknown" for table in tables) else ""


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
    """The type by which the keys of both tables are written; raises ``ValueError`` if they are of types that are never equal."""
    common = common_type(left.key, right.key)
    if common is None:
        raise ValueError(
            f"{transform} joins keys of type {type_name(left.key)} with keys of type {type_name(right.key)}: they are never equal;"
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
