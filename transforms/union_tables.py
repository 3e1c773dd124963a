"""UnionTables: the rows of several tables in one."""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.errors import InputError
from beam_joins.functions.joiner import SIDES, TypedJoin
from beam_joins.functions.pairs import Pairs
from beam_joins.keys.key_columns import as_opaque
from beam_joins.keys.nested import CombinedKeyType, combined_keys
from beam_joins.keys.opaque import KEYS, is_opaque, python_keys
from beam_joins.tables.batch import ChangeBatch
from beam_joins.transforms.engine.construction.input_checks import common_key_type, common_order, common_windowing, tables_by_name
from beam_joins.transforms.engine.construction.option_checks import choice, columns
from beam_joins.transforms.engine.construction.output_types import Handled, Table, Tables
from beam_joins.transforms.engine.construction.table_type import CHECKED, WHOLE, TableType, as_table, table_type
from beam_joins.transforms.engine.joins import key_joined_table
from beam_joins.transforms.engine.stages.batch_references import flattened
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.transform_outputs import HandlesExceptions
from beam_joins.values.exact_casts import exact_cast
from beam_joins.values.exact_values import ValuePlace
from beam_joins.values.schema_evolution import union_type

_NAME = "UnionTables"
Keys = Literal["tagged", "disjoint"]
"""The keys of a union."""


class UnionTables(HandlesExceptions[Tables, Table, Handled[Table]]):
    """The rows of several tables in one: ``(left: Table[K, V], right: Table[K, V]) -> Table[CombinedKey[str, K], V]``.

    * ``tables``: the names of the tables, two or more. The input is a tuple of tables in this order, or a dict of tables by
      these names.
    * ``keys``: ``"tagged"``: a row has the key ``CombinedKey(name of its table, key)``, so that rows of two tables may have one
      key. ``"disjoint"``: keys stay, and the run fails where two tables have a row with one key at one position.

    Values have the columns of all tables, each of a type that holds all of its values, null where a table has not the column;
    they are all typed or all opaque. Timestamps and positions stay; with ``"disjoint"`` a result has the largest timestamp of the
    changes of its key at a position.

    Raises ``ValueError`` at construction for a wrong option; when applied to tables without a common type of columns or of
    order, and with ``"disjoint"`` of keys that are never equal.

    >>> import apache_beam as beam
    >>> from beam_joins import Change
    >>> with beam.Pipeline() as pipeline:
    ...     web = pipeline | "web" >> beam.Create([Change(7, None, "tea", timestamp=1, position=1)])
    ...     shop = pipeline | "shop" >> beam.Create([Change(7, None, "milk", timestamp=2, position=2)])
    ...     orders = {"web": web, "shop": shop} | UnionTables(tables=["web", "shop"])
    ...     rows = orders | beam.FlatMap(lambda batch: batch) | beam.Map(lambda change: (*change.key, change.new))
    ...     _ = rows | beam.combiners.ToList() | beam.Map(lambda rows: print(sorted(rows)))
    [('shop', 7, 'milk'), ('web', 7, 'tea')]
    """

    def __init__(self, *, tables: Sequence[str] = SIDES, keys: Keys = "tagged") -> None:
        super().__init__()
        self._names = columns("tables", tables)
        if len(self._names) < 2 or len({*self._names}) < len(self._names):
            raise ValueError(f"tables={tables!r}: give each of two or more tables a name of its own")
        self._keys: Keys = choice("keys", keys, Keys)

    def build(self, pvalue: Any) -> PCollection[Any]:
        """The table of all rows."""
        incoming = tables_by_name(_NAME, pvalue, self._names)
        is_tagged = self._keys == "tagged"
        tables = {name: prepared(table, name, needs="checked" if is_tagged else "turns") for name, table in incoming.items()}
        types = {name: table_type(table) for name, table in tables.items()}
        order, value = common_order(_NAME, *types.values()), _common_values(types)
        if is_tagged:
            kinds = {of_table.key_column for of_table in types.values()}
            tagged = [
                as_table(
                    table | f"{name} tagged" >> beam.Map(_tagged, name, value, len(kinds) == 1).with_output_types(ChangeBatch),
                    types[name],
                )
                for name, table in tables.items()
            ]
            key: Any = CombinedKeyType(pa.string(), kinds.pop() if len(kinds) == 1 else KEYS)
            return as_table(flattened(tuple(tagged), "All"), TableType(key, Any if is_opaque(value) else value, order), CHECKED)
        key = types[self._names[0]].key
        for one, other in pairwise(types.values()):
            key = common_key_type(_NAME, TableType(key), other)
            windowed = common_windowing(_NAME, one, other)
        join = TypedJoin(partial(_one_of, names=self._names, kind=value), None if is_opaque(value) else value)
        joined = key_joined_table(
            _NAME, tables, [None] * len(tables), join=join, hows=["outer"] * (len(tables) - 1), handling=self.handling
        )
        return as_table(joined, TableType(key, Any if is_opaque(value) else value, order, windowed), WHOLE)


def _common_values(types: dict[str, TableType]) -> pa.DataType:
    """The type of the values of all tables; raises ``ValueError``."""
    kinds = [of_table.value_column for of_table in types.values()]
    opaque = [name for name, of_table in types.items() if is_opaque(of_table.value_column)]
    if opaque and len(opaque) < len(kinds):
        typed = next(name for name in types if name not in opaque)
        raise ValueError(f"{_NAME}: the {opaque[0]} table has Python objects and the {typed} table typed columns: give both a schema=")
    try:
        return kinds[0] if opaque else reduce(union_type, kinds)
    except ValueError as error:
        raise ValueError(f"{_NAME}: {error}: convert it with MapTable") from None


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return exact_cast(values, kind, ValuePlace("a table"))


def _tagged(batch: ChangeBatch, name: str, kind: pa.DataType, has_one_kind: bool) -> ChangeBatch:
    """The changes under keys with the name of their table; those of tables with keys of several types are Python objects."""
    new, earlier = (values if is_opaque(kind) else _cast(values, kind) for values in (batch.new, batch.earlier))
    key = combined_keys(pa.array([name] * len(batch), pa.string()), batch.key if has_one_kind else as_opaque(batch.key))
    return ChangeBatch(key=key, new=new, before=batch.before, timestamp=batch.timestamp, position=batch.position, earlier=earlier)


def _one_of(pairs: Pairs, *, names: Sequence[str], kind: pa.DataType) -> pa.Array:
    """The value of the only table that has one; raises ``InputError`` where two have."""
    sides = pairs.columns(len(names))
    present = np.stack([index >= 0 for _, index in sides])
    if (twice := present.sum(axis=0) > 1).any():
        at = int(np.argmax(twice))
        one, other, *_ = (name for name, has in zip(names, present[:, at].tolist(), strict=True) if has)
        key = python_keys(pairs.key.slice(at, 1))[0]
        raise InputError(f"{_NAME}: the {one} table and the {other} table both have a row with the key {key!r}: use keys='tagged'")
    columns_of_kind = [values if is_opaque(kind) else _cast(values, kind) for values, _ in sides]
    begins = np.cumsum([0, *map(len, columns_of_kind)])
    index = np.max([np.where(at >= 0, at + begin, -1) for (_, at), begin in zip(sides, begins.tolist(), strict=False)], axis=0)
    return pa.concat_arrays(columns_of_kind).take(pa.array(index, mask=index < 0))
