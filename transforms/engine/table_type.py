"""The type of a table when a pipeline is built: the types of its keys and values, and what its positions are.

It is part of the collection's element type, so steps that keep the element type keep it: ``beam.Reshuffle``, ``beam.Flatten``, or a step with
``with_output_types(table.element_type)``.
"""

import logging
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints.typehints import TupleConstraint, UnionConstraint

from beam_joins.batch import ChangeBatch
from beam_joins.change import Change
from beam_joins.coders.key import common_type, type_name
from beam_joins.keys.nested import CombinedKeyType, WindowedType
from beam_joins.keys.opaque import KEYS, VALUES, is_opaque
from beam_joins.parameters import Parameterised, parameterised
from beam_joins.transforms.engine.unbounded import require_global
from beam_joins.windowed import Windowed

Order = Literal["time", "sequence", "unknown"]
"""What a position is: the event time, a sequence of the source, or unknown."""

_MADE = "_beam_joins_table_type"
NOT_KNOWN_WINDOWED = (
    "behind a beam.Map of your own that is forgotten, so use MapTable or FilterTable there, say .with_output_types(table.element_type),"
    " or use as_windowed_table(table)"
)
"""What a message says of a table that is not known to be windowed."""
_log = logging.getLogger(__name__)


class TableType(NamedTuple):
    """What is known of a table; ``Any`` and ``"unknown"`` where nothing is.

    ``key`` and ``value`` are Arrow types of typed columns, or Python types of opaque ones. The keys of a windowed table are ``Windowed[K]``,
    and ``key`` is K. In a ``checked`` table a row has at most one change at a position, with the right old value, as transforms of this library make
    it; in a ``whole`` one all changes of a row are in one batch; in a ``final`` one a row has one change, its insert. ``bytes`` is about the size of its
    rows, ``None`` where that is not known. Other steps lose these four.
    """

    key: Any = Any
    value: Any = Any
    order: Order = "unknown"
    windowed: bool = False
    whole: bool = False
    checked: bool = False
    final: bool = False
    bytes: int | None = None

    @property
    def key_column(self) -> pa.DataType:
        """The type of the column of keys."""
        key = self.key if isinstance(self.key, pa.DataType) else KEYS
        return WindowedType(key) if self.windowed else key

    @property
    def value_column(self) -> pa.DataType:
        """The type of the column of values."""
        return self.value if isinstance(self.value, pa.DataType) else VALUES

    @property
    def is_typed(self) -> bool:
        """Whether neither keys nor values are Python objects."""
        return not _has_objects(self.key_column) and not _has_objects(self.value_column)


def as_table(pcoll: PCollection[Any], table_type: TableType, *, checked: bool = True) -> PCollection[Any]:
    """The same collection, known to be a table of this type; ``checked`` if a transform has made it of rows that it has checked."""
    known = table_type._replace(checked=checked)
    if not is_batches(pcoll):  # the changes of typed columns have Python objects
        key, value = _python_types(known)
        known = known._replace(key=key, value=value)
    if is_batches(pcoll) or is_changes(pcoll):
        pcoll.element_type = _element_type(ChangeBatch if is_batches(pcoll) else Change, known)
    setattr(pcoll, _MADE, known)
    return pcoll


def is_batches(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is known to be of batches of changes."""
    return _is_of(ChangeBatch, pcoll.element_type)


def is_changes(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is known to be of changes, one by one."""
    return _is_of(Change, pcoll.element_type)


def table_type(pcoll: PCollection[Any]) -> TableType:
    """What is known of a table: what the transform that made it knew, or what its element type still says."""
    made: TableType | None = getattr(pcoll, _MADE, None)
    return _of_hint(pcoll.element_type) if made is None else made


def _element_type(origin: type, known: TableType) -> type:
    key, value = _python_types(known)
    if known.windowed:
        key = Windowed if key is Any else parameterised(Windowed, (key,))
    return parameterised(origin, (key, value), known._replace(whole=False, checked=False, final=False, bytes=None))


def _python_types(known: TableType) -> Iterator[Any]:
    return (Any if isinstance(each, pa.DataType) else each for each in (known.key, known.value))


def _of_hint(hint: Any) -> TableType:
    if isinstance(hint, UnionConstraint):  # of a Flatten
        one, *others = (_of_hint(each) for each in hint.union_types)
        for other in others:
            order: Order = one.order if one.order == other.order else "unknown"
            key, value = (a if a == b else Any for a, b in zip(one[:2], other[:2], strict=True))
            one = TableType(key, value, order, one.windowed and other.windowed)
        return one
    if not isinstance(hint, Parameterised) or hint.origin not in (Change, ChangeBatch):
        return TableType()
    if hint.known is not None:
        known: TableType = hint.known
        return known
    key, value = hint.parameters
    if not (isinstance(key, type) and issubclass(key, Windowed)):
        return TableType(key, value)
    return TableType(key.parameters[0] if isinstance(key, Parameterised) else Any, value, windowed=True)


def _has_objects(kind: pa.DataType) -> bool:
    if isinstance(kind, WindowedType | CombinedKeyType):
        kind = kind.storage_type
    return is_opaque(kind) or any(_has_objects(kind.field(i).type) for i in range(kind.num_fields))


def _is_of(origin: type, hint: Any) -> bool:
    if isinstance(hint, UnionConstraint):
        return all(_is_of(origin, each) for each in hint.union_types)
    return isinstance(hint, type) and issubclass(hint, origin)


def as_windowed_table(table: PCollection[Any]) -> PCollection[Any]:
    """The same collection, declared to be a windowed table: its keys are :class:`~beam_joins.Windowed`.

    A ``beam.Map`` of your own without ``with_output_types`` loses the element type of a table, and with it that it is windowed; transforms of windowed
    tables refuse it then. Raises ``ValueError`` for a collection that cannot be a windowed table.

    >>> import apache_beam as beam
    >>> from beam_joins import Window, Windowed
    >>> counts = beam.Pipeline() | beam.Create([Change(Windowed("home", Window(0, 7)), None, 10, timestamp=1, position=1)])
    >>> table_type(as_windowed_table(counts)).windowed
    True
    """
    is_collection = isinstance(table, PCollection)
    hint = table.element_type if is_collection else None
    classes = isinstance(hint, type) and not issubclass(hint, Change | ChangeBatch) and hint is not object
    if not is_collection or classes or isinstance(hint, TupleConstraint):
        raise ValueError(f"as_windowed_table takes a collection of changes keyed by Windowed, not {table}")
    known = table_type(table)
    if known.windowed:
        return table
    return as_table(table, known._replace(key=Any, windowed=True), checked=False)


def perhaps_windowed(*tables: TableType) -> str:
    """What a message about tables that are not windowed says too if one of them may have been: nothing is known of it."""
    return f" ({NOT_KNOWN_WINDOWED})" if any(not table.windowed and table.order == "unknown" for table in tables) else ""


def common_order(transform: str, *tables: TableType) -> Order:
    """The order of what is joined from these tables; raises ``ValueError`` if they are known to be ordered by different things."""
    known = {table.order for table in tables} - {"unknown"}
    if len(known) > 1:
        raise ValueError(
            f"{transform} joins a table ordered by a sequence with one ordered by event time, and their positions say nothing of each"
            " other: give sequence_by= to both tables, from one common sequence, or to neither"
        )
    order: Order = known.pop() if known else "unknown"
    if any(table.order == "unknown" for table in tables):
        _log.warning(
            "%s cannot check that its tables are ordered by the same, event time or one sequence: nothing is known of one of them, as behind a"
            " beam.Map of your own; use MapTable or FilterTable there, or say .with_output_types(table.element_type)",
            transform,
        )
    return order


def common_key_type(transform: str, left: TableType, right: TableType, left_keys: str = "keys") -> Any:
    """The type by which the keys of both tables are written; raises ``ValueError`` if they are of types that are never equal.

    ``left_keys`` is what the message calls the left ones.
    """
    common = common_type(left.key, right.key)
    if common is None:
        raise ValueError(
            f"{transform} joins {left_keys} of type {type_name(left.key)} with keys of type {type_name(right.key)}: they are never equal;"
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


def two_inputs(transform: str, pvalue: Any, what: str) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right input; raises ``ValueError`` for anything else, and for input that the engine does not take."""
    if not isinstance(pvalue, tuple) or len(pvalue) != 2:
        raise ValueError(f"{transform} takes {what} | {transform}(...)")
    require_global(transform, *pvalue)
    left, right = pvalue
    return left, right


def two_tables(transform: str, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any]]:
    """The left and the right table of a join; raises ``ValueError`` for anything else, and for input that the engine does not take."""
    left, right = two_inputs(transform, pvalue, "two tables: (left, right)")
    for table in (left, right):
        if isinstance(table.element_type, TupleConstraint):
            raise ValueError(
                f"{transform} joins tables, but got a collection of {table.element_type}: make a table with TableFromChangelog"
            )
    return left, right
