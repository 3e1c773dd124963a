"""OneToManyJoin: joins each row of one table with the many rows of another that refer to it (Jan Filipiak's
join in the older part of KIP-213).
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.elements.combined_key import CombinedKey
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions.fields import of_row
from beam_joins.functions.joiner import Joiner, columns_read, joiner_in_columns, swapped
from beam_joins.functions.typed_rows import Schema
from beam_joins.kernels.overlap_events import Shape
from beam_joins.keys.opaque import opaque_keys, python_keys
from beam_joins.options.join_types import How, PairHow
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import common_key_type, common_order, two_tables
from beam_joins.transforms.engine.construction.option_checks import choice, function
from beam_joins.transforms.engine.construction.output_types import TwoTables
from beam_joins.transforms.engine.construction.table_type import WHOLE, TableType, as_table
from beam_joins.transforms.engine.joins import (
    by_reference,
    combined_type,
    compared_keys,
    in_one_text,
    in_sides,
    joined_table,
    options_compared,
    referring_rows,
)
from beam_joins.transforms.engine.stages.foreign_keys import keys_like, one_reference
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.transform_outputs import MakesTable

_KEPT: dict[PairHow, How] = {"inner": "inner", "left": "right", "right": "left", "outer": "outer"}
"""The join of the many with the one."""


class OneToManyJoin(MakesTable[TwoTables]):
    """Joins each row of the left table with all rows of the right table that refer to it. The result is keyed
    by both keys.

    ``(one: Table[K, V], many: Table[L, W]) -> Table[CombinedKey[K, L], R]``. A change of the one row updates
    its pairs with all rows that refer to it; a change of one of the many updates its own pair; a row whose
    reference changes deletes its old pair first.

    * ``joiner``: the columns of the result, ``{"name": "left.name", "title": "right.title"}`` with the one as
      ``left`` and the many as ``right``; or a function of both values, as in
      :class:`~beam_joins.ForeignKeyJoin`.
    * ``foreign_key``: the field of the right value with the key of the left row, or several fields for a
      compound key; or a function of the right key and value, ``None`` for no left row. If the left table is
      windowed, it returns a ``Windowed`` key.
    * ``how``: ``"inner"``; ``"left"`` keeps rows of the one without any of the many, ``joiner(one value,
      None)`` under ``CombinedKey(key, None)``; ``"right"`` rows of the many without the one, ``joiner(None,
      many value)``; ``"outer"`` both.
    * ``key_mapper``, ``key_inverse``: a function of the combined key that returns the result's key, and its
      inverse. This is checked: two pairs must not get one key.
    * ``schema``: the type of the results of a joiner of one record, a ``pyarrow.Schema`` or ``DataType``.
      Without it the result's values are opaque.

    Where rows of the many are not kept, a row whose foreign key is ``None`` is dropped as
    ``"null_foreign_key"``: counted, and an output of :meth:`with_outputs`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, unless
    :meth:`with_exception_handling` is used.

    Raises ``ValueError`` at construction for a wrong option; when applied to anything but two tables, and for
    columns that a table does not have; and in the run if the mapping fails its check, and for two changes of
    one row at one position.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     authors = pipeline | "authors" >> beam.Create([Change("a", None, "Ann", timestamp=1, position=1)])
    ...     books = pipeline | "books" >> beam.Create([Change(7, None, {"by": "a", "title": "Tea"}, timestamp=2, position=2)])
    ...     written = (authors, books) | OneToManyJoin(lambda author, book: f"{book['title']} by {author}", foreign_key="by")
    ...     _ = written | beam.FlatMap(lambda batch: batch) | beam.Map(lambda change: print(change.key, change.new))
    CombinedKey(foreign_key='a', primary_key=7) Tea by Ann
    """

    def __init__(
        self,
        joiner: Joiner,
        *,
        foreign_key: str | Sequence[str] | Callable[..., Any],
        how: PairHow = "inner",
        key_mapper: Callable[[CombinedKey[Any, Any]], Any] | None = None,
        key_inverse: Callable[[Any], CombinedKey[Any, Any]] | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__()
        if (key_mapper is None) != (key_inverse is None):
            raise ValueError("key_mapper and key_inverse go together: give both or neither")
        if key_mapper is not None:
            function("key_mapper", key_mapper, "of a CombinedKey that gives the key of the result")
            function("key_inverse", key_inverse, "of a key of the result that gives the CombinedKey")
        self._called, self._foreign_key = of_row("foreign_key", foreign_key), foreign_key
        joiner_in_columns(joiner, schema=schema)
        self._joiner = joiner
        self._how: PairHow = choice("how", how, PairHow)
        self._key_mapper = key_mapper
        self._key_inverse = key_inverse
        self._schema = schema

    def options_of_state(self, inputs: Sequence[PCollection[Any]]) -> dict[str, Any]:
        """The options, and the forms in which keys are compared."""
        return super().options_of_state(inputs) | options_compared(self._foreign_key, inputs[::-1])

    def build(self, pvalue: Any) -> tuple[PCollection[Any], PCollection[Any] | None]:
        """The joined table and the dropped records."""
        one, many = two_tables("OneToManyJoin", pvalue)
        sides = in_sides(prepared(many, needs="checked"), one)
        functions, types = self.handling.functions, sides.types
        join = joiner_in_columns(self._joiner, functions, self._schema, types=(sides.value_types[1], sides.value_types[0]))
        keys = keys_like(types[1], "the foreign key")
        references = one_reference("foreign_key", self._foreign_key, self._called, functions, types[0], keys)
        sides, references = in_one_text(sides, references, compared_keys("OneToManyJoin", self._foreign_key, *types))
        types = sides.types
        common_key_type("OneToManyJoin", TableType(references.type), types[1], "foreign keys")
        key = Any if self._key_mapper else combined_type(references, types)
        result = TableType(key, join.type, common_order("OneToManyJoin", *types))
        columns = columns_read(self._joiner)
        shape = Shape(_KEPT[self._how], "both", "combined_key")
        mapper, inverse = (functions.function(name, getattr(self, f"_{name}")) for name in ("key_mapper", "key_inverse"))
        joined, lefts = joined_table(
            "OneToManyJoin",
            sides,
            by_reference(referring_rows(references, shape, types[0], columns[1])),
            (columns[1], columns[0]),
            join=swapped(join),
            shape=shape,
            handling=self.handling,
            looks_up=references.type,
            keys=("foreign keys", "keys that they refer to"),
            dropping=self.dropping,
            finish=None if mapper is None else _mapping(mapper, inverse, functions),
        )
        return as_table(joined, result, WHOLE), self.all_dropped(lefts)


def _mapping(
    mapper: Callable[[Any], Any], inverse: Callable[[Any], Any], functions: StageFunctions
) -> Callable[[ChangeBatch], ChangeBatch]:
    """A function that gives the changes of a batch the keys that the mapper makes; without those for which it
    raises.
    """

    def mapped(batch: ChangeBatch) -> ChangeBatch:
        keys: list[Any] = []
        raised: dict[int, FunctionFailed] = {}
        for n, key in enumerate(python_keys(batch.key)):
            try:
                keys.append(_mapped(mapper, inverse, key))
            except FunctionFailed as failed:
                if not functions.handles(failed.__cause__):
                    raise
                raised[n] = failed
        if raised:
            for n, change in enumerate(batch):
                if n in raised and change.new is not None:
                    functions.caught(change, raised[n], change.timestamp)
            batch = batch.filter(pa.array([n not in raised for n in range(len(batch))]))
        return ChangeBatch(
            key=opaque_keys(keys),
            new=batch.new,
            before=batch.before,
            timestamp=batch.timestamp,
            position=batch.position,
            earlier=batch.earlier,
        )

    return mapped


def _mapped(mapper: Callable[[Any], Any], inverse: Callable[[Any], Any], key: CombinedKey[Any, Any]) -> Any:
    result = mapper(key)
    if inverse(result) != key:
        raise ValueError(
            f"key_mapper makes {result!r} of {key}, of which key_inverse makes {inverse(result)}: two pairs may get one key"
        )
    return result
