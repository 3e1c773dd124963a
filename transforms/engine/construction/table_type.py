"""The type of a table when a pipeline is built: the types of its keys and values, and the order of its
positions.

The type is part of the collection's element type, so steps that keep the element type keep it:
``beam.Reshuffle``, ``beam.Flatten``, or a step with ``with_output_types(table.element_type)``. How the
changes of the table lie in a collection (:class:`Physical`) is known of that collection alone.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, get_args

import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.typehints.typehints import TupleConstraint, UnionConstraint

from beam_joins.columns.compared import ComparedTable
from beam_joins.elements.change import Change
from beam_joins.elements.parameters import Parameterised, parameterised
from beam_joins.elements.windowed import Grid, Windowed
from beam_joins.keys.nested import CombinedKeyType, WindowedType
from beam_joins.keys.opaque import KEYS, VALUES, is_opaque
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.applied_transforms import main_inputs, producer_of, public_transforms

Order = Literal["time", "sequence", "first", "mixed", "unknown"]
"""The order of positions: the event time, a sequence of the source, none as all rows are at the first position, which is
before those of either, one or the other behind a Flatten of both, or unknown.
"""

TOTAL_KEY: Final[Any] = tuple[()]
"""The Python type of the key ``()``."""
_MADE = "_beam_joins_table"
NOT_KNOWN_WINDOWED = (
    "behind a beam.Map of your own that is forgotten, so use MapTable or FilterTable there, say "
    ".with_output_types(table.element_type),"
    " or use as_windowed_table(table)"
)
"""The hint in messages about a table that is not known to be windowed."""


class TableType(NamedTuple):
    """The type of a table; ``Any`` and ``"unknown"`` where it is not known.

    ``key`` and ``value`` are Arrow types of typed columns, or Python types of opaque ones. The keys of a
    windowed table are ``Windowed[K]``, and ``key`` is K. ``windows`` are all windows of a windowed table,
    where its window function says them. ``anew``: the position at which this run's rows replace all that earlier runs
    gave, as the pipeline has changed; ``None`` where the table goes on. ``compared`` are its columns as the database that
    they come from compares them. ``key_names`` are the names of the columns of the key, empty where the key is not known to have
    some.
    """

    key: Any = Any
    value: Any = Any
    order: Order = "unknown"
    windowed: bool = False
    windows: Grid | None = None
    anew: int | None = None
    compared: ComparedTable = ComparedTable()
    key_names: tuple[str, ...] = ()

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
    def columns(self) -> pa.Schema:
        """The columns of keys and values."""
        return pa.schema([("key", self.key_column), ("value", self.value_column)])

    @property
    def is_total(self) -> bool:
        """Whether the table has one row, whose key is ``()``."""
        return bool(self.key == TOTAL_KEY)

    @property
    def has_typed_keys(self) -> bool:
        """Whether no part of a key is a Python object."""
        return self.is_total or not _has_objects(self.key_column)

    @property
    def is_typed(self) -> bool:
        """Whether neither keys nor values are Python objects."""
        return self.has_typed_keys and not _has_objects(self.value_column)


def key_names_of(key: Any) -> tuple[str, ...]:
    """The names of the columns that make a key, none for a function.

    >>> key_names_of("id"), key_names_of(["shop", "id"]), key_names_of(None)
    (('id',), ('shop', 'id'), ())
    """
    if isinstance(key, str):
        return (key,)
    return () if key is None or callable(key) else tuple(key)


Form = Literal["unchecked", "checked", "whole", "final"]
"""The form of a table's changes in a collection; each form is also the ones before it.

In a ``"checked"`` one a row has at most one change at a position, with the right old value, as transforms of
this library make it; in a ``"whole"`` one all changes of a row are in one batch; in a ``"final"`` one a row
has one change, its insert.
"""


class Physical(NamedTuple):
    """The properties of a table in one collection, which are lost in any step of another library.

    ``bytes`` is about the size of its rows, ``None`` where that is not known.
    """

    form: Form = "unchecked"
    bytes: int | None = None

    def is_in(self, form: Form) -> bool:
        """Whether the changes are in this form.

        >>> Physical("whole").is_in("checked"), Physical("whole").is_in("final")
        (True, False)
        """
        return _FORMS.index(self.form) >= _FORMS.index(form)

    def at_most(self, form: Form) -> "Physical":
        """The same of a collection whose changes are in this form only.

        >>> Physical("whole", 7).at_most("checked")
        Physical(form='checked', bytes=7)
        """
        return self._replace(form=min(self.form, form, key=_FORMS.index))


_FORMS: tuple[Form, ...] = get_args(Form)
CHECKED, WHOLE = Physical("checked"), Physical("whole")


def as_table(pcoll: PCollection[Any], of_table: TableType, physical: Physical = CHECKED) -> PCollection[Any]:
    """The same collection, known to be a table of this type."""
    if not is_batches(pcoll):  # the changes of typed columns have Python objects
        key, value = _python_types(of_table)
        of_table = of_table._replace(key=key, value=value)
    if is_table(pcoll):
        pcoll.element_type = _element_type(ChangeBatch if is_batches(pcoll) else Change, of_table)
    setattr(pcoll, _MADE, _Made(of_table, physical))
    return pcoll


def begins_anew(table: PCollection[Any]) -> int | None:
    """The position at which a table begins anew in this run, ``None`` where it goes on from earlier runs.

    A table of a changed pipeline begins anew: its changes of this run are the inserts of all its rows at that position, and
    the changes behind it. Rows that earlier runs gave are void. A sink of your own asks for it when it is applied, and
    replaces them.

    Raises ``ValueError`` for anything that is no collection, and for a Flatten of tables that begin anew at different positions,
    or of which others go on.

    >>> import apache_beam as beam
    >>> stock = beam.Pipeline() | beam.Create([Change("apple", None, 7, timestamp=1, position=1)])
    >>> begins_anew(stock) is None
    True
    """
    if not isinstance(table, PCollection):
        raise ValueError(f"begins_anew takes a table, not {type(table).__name__}")
    anew = _anew(table)
    if anew == "mixed":
        raise ValueError(
            "a table that begins anew is flattened with others, whose rows from before this run are not in it: apply FilterTable or "
            "MapTable behind the Flatten, which give all rows"
        )
    return anew


def _anew(pcoll: PCollection[Any]) -> int | Literal["mixed"] | None:
    """The position at which a table begins anew, also behind steps of other libraries."""
    if hasattr(pcoll, _MADE) or (isinstance(pcoll.element_type, Parameterised) and pcoll.element_type.details is not None):
        return table_type(pcoll).anew
    public = public_transforms(pcoll.pipeline)
    producer = producer_of(pcoll, public)
    anew = set() if producer.full_label in public else {_anew(each) for each in main_inputs(producer)}
    return "mixed" if len(anew) > 1 else next(iter(anew), None)


def at_first_position(table: PCollection[Any]) -> PCollection[Any]:
    """The same table, known to have all its rows at the first position."""
    return as_table(table, table_type(table)._replace(order="first"), physical_of(table))


def compared_as(table: PCollection[Any], compared: ComparedTable) -> PCollection[Any]:
    """The same table, whose columns are known to be compared by their database."""
    return as_table(table, table_type(table)._replace(compared=compared), physical_of(table))


class _Made(NamedTuple):
    """The type and the properties of a table in a collection that a transform of this library has made."""

    type: TableType
    physical: Physical


def is_batches(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is known to be of batches of changes."""
    return _is_of(ChangeBatch, pcoll.element_type)


def is_changes(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is known to be of changes, one by one."""
    return _is_of(Change, pcoll.element_type)


def is_table(pcoll: PCollection[Any]) -> bool:
    """Whether a collection is known to be a table, in batches or changes."""
    return is_batches(pcoll) or is_changes(pcoll)


def table_type(pcoll: PCollection[Any]) -> TableType:
    """The type of a table: that of the transform that made it, or what its element type still says of it."""
    made: _Made | None = getattr(pcoll, _MADE, None)
    return _of_hint(pcoll.element_type) if made is None else made.type


def physical_of(pcoll: PCollection[Any]) -> Physical:
    """The properties of the table in this collection, set by the transform that made it, or else the
    defaults.
    """
    made: _Made | None = getattr(pcoll, _MADE, None)
    return Physical() if made is None else made.physical


def _element_type(origin: type, of_table: TableType) -> type:
    key, value = _python_types(of_table)
    if of_table.windowed:
        key = Windowed if key is Any else parameterised(Windowed, (key,))
    return parameterised(origin, (key, value), of_table)


def _python_types(of_table: TableType) -> Iterator[Any]:
    return (Any if isinstance(each, pa.DataType) else each for each in (of_table.key, of_table.value))


def _of_hint(hint: Any) -> TableType:
    if isinstance(hint, UnionConstraint):  # of a Flatten
        one, *others = (_of_hint(each) for each in hint.union_types)
        for other in others:
            order = _flattened_order(one.order, other.order)
            key, value = (a if a == b else Any for a, b in zip(one[:2], other[:2], strict=True))
            one = TableType(key, value, order, one.windowed and other.windowed)
        return one
    if not isinstance(hint, Parameterised) or hint.origin not in (Change, ChangeBatch):
        return TableType()
    if hint.details is not None:
        of_table: TableType = hint.details
        return of_table
    key, value = hint.parameters
    if not (isinstance(key, type) and issubclass(key, Windowed)):
        return TableType(key, value)
    return TableType(key.parameters[0] if isinstance(key, Parameterised) else Any, value, windowed=True)


def _flattened_order(one: Order, other: Order) -> Order:
    if "unknown" in (one, other):
        return "unknown"
    if "first" in (one, other):
        return other if one == "first" else one
    return one if one == other else "mixed"


def _has_objects(kind: pa.DataType) -> bool:
    if isinstance(kind, WindowedType | CombinedKeyType):
        kind = kind.storage_type
    return is_opaque(kind) or any(_has_objects(kind.field(i).type) for i in range(kind.num_fields))


def _is_of(origin: type, hint: Any) -> bool:
    if isinstance(hint, UnionConstraint):
        return all(_is_of(origin, each) for each in hint.union_types)
    return isinstance(hint, type) and issubclass(hint, origin)


def as_windowed_table(table: PCollection[Any]) -> PCollection[Any]:
    """Declares a collection to be a windowed table, whose keys are :class:`~beam_joins.Windowed`.

    A ``beam.Map`` of your own without ``with_output_types`` loses the element type of a table, and with it
    that it is windowed; transforms of windowed tables refuse it then. Raises ``ValueError`` for a collection
    that cannot be a windowed table.

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
    of_table = table_type(table)
    if of_table.windowed:
        return table
    return as_table(table, of_table._replace(key=Any, windowed=True), physical_of(table).at_most("unchecked"))
