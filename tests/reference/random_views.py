"""Random views over three tables, each with its answer by recomputation: functions of lists of rows, which know no relations."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import aggregates as agg
from beam_joins import views
from beam_joins.views import Relation
from beam_joins.views.row_keys import row_key

Row = dict[str, Any]
Answer = Callable[[Mapping[str, Sequence[Row]]], list[Row]]

SCHEMAS = {
    "people": (pa.schema({"id": pa.int64(), "boss": pa.int64(), "city": pa.string(), "n": pa.int32()}), ("id",)),
    "shops": (pa.schema({"id": pa.int64(), "city": pa.string(), "n": pa.int64()}), ("id",)),
    "stock": (pa.schema({"shop": pa.int64(), "sku": pa.string(), "n": pa.int64()}), ("shop", "sku")),
}
VALUES: dict[str, Sequence[Any]] = {"int": (None, 1, 2, 3), "string": (None, "a", "b")}


class Made(NamedTuple):
    """A view and its answer."""

    relation: Relation
    answer: Answer


def history(chance: random.Random, length: int) -> dict[str, list[Row]]:
    """Changes of the tables, in the order of their positions, with ``position`` and ``op``; some of one position."""
    changes = dict[str, list[Row]]({name: [] for name in SCHEMAS})
    there = dict[str, dict[Any, Row]]({name: {} for name in SCHEMAS})
    position = 0
    for _ in range(length):
        position += chance.random() < 0.8
        name = chance.choice([*SCHEMAS])
        schema, key = SCHEMAS[name]
        row = {field.name: chance.choice(_values(field.type)[field.name in key :]) for field in schema}
        row_key = tuple(row[column] for column in key)
        if any(each["position"] == position and tuple(each[column] for column in key) == row_key for each in changes[name]):
            continue
        gone = row_key in there[name] and chance.random() < 0.4
        there[name] = {each: kept for each, kept in there[name].items() if each != row_key} | ({} if gone else {row_key: row})
        changes[name].append({**row, "op": "d" if gone else "u", "position": position})
    return changes


def contents(changes: Mapping[str, Sequence[Row]], position: int) -> dict[str, list[Row]]:
    """The rows of the tables at a position."""
    tables = dict[str, list[Row]]()
    for name, (schema, key) in SCHEMAS.items():
        rows = dict[Any, Row]()
        for change in changes[name]:
            if change["position"] <= position:
                row_key = tuple(change[column] for column in key)
                rows.pop(row_key, None)
                if change["op"] != "d":
                    rows[row_key] = {column: change[column] for column in schema.names}
        tables[name] = [*rows.values()]
    return tables


def view(chance: random.Random, depth: int) -> Made:
    """A random view."""
    if depth == 0:
        return _table(chance.choice([*SCHEMAS]))
    kind = chance.choice([_filtered, _selected, _joined, _joined, _joined, _aggregated, _distinct, _united])
    return kind(chance, depth)


def _values(kind: pa.DataType) -> Sequence[Any]:
    return VALUES["string" if pa.types.is_string(kind) else "int"]


def _table(name: str) -> Made:
    schema, key = SCHEMAS[name]
    return Made(views.table(name, schema, key=key), lambda tables: [dict(row) for row in tables[name]])


def _filtered(chance: random.Random, depth: int) -> Made:
    of = view(chance, depth - 1)
    field = chance.choice(list(of.relation.schema))
    name, least = field.name, chance.choice(_values(field.type)[1:])
    if chance.random() < 0.3:
        return Made(
            of.relation.filter(pc.field(name).is_null()), lambda tables: [row for row in of.answer(tables) if row[name] is None]
        )
    kept = of.relation.filter(pc.field(name) >= least)
    return Made(kept, lambda tables: [row for row in of.answer(tables) if row[name] is not None and row[name] >= least])


def _selected(chance: random.Random, depth: int) -> Made:
    of = view(chance, depth - 1)
    names = of.relation.schema.names
    kept = chance.sample(names, chance.randint(1, len(names)))
    columns: dict[str, Any] = {f"{name}_" if chance.random() < 0.3 and f"{name}_" not in names else name: name for name in kept}
    numbers = [field.name for field in of.relation.schema if pa.types.is_integer(field.type)]
    if not numbers or chance.random() < 0.5:
        return Made(
            of.relation.select(columns),
            lambda tables: [{made: row[name] for made, name in columns.items()} for row in of.answer(tables)],
        )
    number = chance.choice(numbers)
    selected = of.relation.select(columns | {"twice": pc.field(number) * 2})

    def answer(tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        rows = of.answer(tables)
        twice = [None if row[number] is None else row[number] * 2 for row in rows]
        return [{made: row[name] for made, name in columns.items()} | {"twice": each} for row, each in zip(rows, twice, strict=True)]

    return Made(selected, answer)


def _joined(chance: random.Random, depth: int) -> Made:
    left, right = view(chance, depth - 1), view(chance, chance.randrange(depth))
    of_left, of_right = left.relation.schema, right.relation.schema
    on = _equality(chance, left.relation, right.relation)
    if not on:
        return left
    how = chance.choice(["inner", "left", "right", "outer", "semi", "anti"])
    numbers = [[field.name for field in schema if not _is_text(field)] for schema in (of_left, of_right)]
    below = (chance.choice(numbers[0]), chance.choice(numbers[1])) if all(numbers) and chance.random() < 0.1 else None
    condition = None if below is None else pc.field("left", below[0]) <= pc.field("right", below[1])
    columns = {f"l{n}": f"left.{name}" for n, name in enumerate(of_left.names)}
    if how not in ("semi", "anti"):
        columns |= {f"r{n}": f"right.{name}" for n, name in enumerate(of_right.names)}
    named = [*columns.items()]
    columns = dict(chance.sample(named, chance.randint(1, len(named))))
    left_on, right_on = ([pair[side] for pair in on] for side in range(2))
    joined = left.relation.join(right.relation, left_on=left_on, right_on=right_on, how=how, condition=condition, columns=columns)

    def meet(one: Row, other: Row) -> bool:
        equal = all(one[a] is not None and one[a] == other[b] for a, b in on)
        if not equal or below is None:
            return equal
        low, high = one[below[0]], other[below[1]]
        return low is not None and high is not None and low <= high

    def answer(tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        ones, others = left.answer(tables), right.answer(tables)
        matched = [[meet(one, other) for other in others] for one in ones]
        rows = list[tuple[Row | None, Row | None]]()
        if how in ("semi", "anti"):
            rows = [(one, None) for one, meets in zip(ones, matched, strict=True) if any(meets) == (how == "semi")]
        else:
            rows = [
                (one, other) for one, meets in zip(ones, matched, strict=True) for other, it in zip(others, meets, strict=True) if it
            ]
        if how in ("left", "outer"):
            rows += [(one, None) for one, meets in zip(ones, matched, strict=True) if not any(meets)]
        if how in ("right", "outer"):
            rows += [(None, other) for n, other in enumerate(others) if not any(meets[n] for meets in matched)]
        return [{name: _of_side(column, *row) for name, column in columns.items()} for row in rows]

    return Made(joined, answer)


def _equality(chance: random.Random, left: Relation, right: Relation) -> list[tuple[str, str]]:
    """Pairs of columns that may be equal; often the keys of one side, or of both."""
    pairs = [(one.name, other.name) for one in left.schema for other in right.schema if _is_text(one) == _is_text(other)]
    chance.shuffle(pairs)
    keys = row_key(left).columns, row_key(right).columns
    if chance.random() < 0.7 and (sides := [side for side in range(2) if keys[side]]):
        side = chance.choice(sides)
        of_key = keys[side] or ()
        if all(keys) and len(keys[0] or ()) == len(keys[1] or ()) and chance.random() < 0.6:
            meets = [*zip(*(key or () for key in keys), strict=True)]
        else:
            meets = [next((pair for pair in pairs if pair[side] == name), ("", "")) for name in of_key]
        if all(pair in pairs for pair in meets):
            return meets
    on = pairs[:1]
    return on + [pair for pair in pairs[1:] if pair[0] != on[0][0] and pair[1] != on[0][1] and chance.random() < 0.3][:1]


def _of_side(column: str, left: Row | None, right: Row | None) -> Any:
    side, _, name = column.partition(".")
    row = left if side == "left" else right
    return None if row is None else row[name]


def _aggregated(chance: random.Random, depth: int) -> Made:
    of = view(chance, depth - 1)
    fields = list(of.relation.schema)
    by = [field.name for field in chance.sample(fields, chance.randint(0, min(2, len(fields))))]
    column = chance.choice(fields)
    name, where, least = column.name, chance.choice(fields).name, None
    functions: dict[str, Callable[[list[Any]], Any]] = {
        "count": len,
        "min": lambda values: min(values, default=None),
        "max": lambda values: max(values, default=None),
        "count_distinct": lambda values: len({*values}),
    }
    if not _is_text(column):
        functions["sum"] = lambda values: sum(values) if values else None
    function = chance.choice([*functions])
    least = chance.choice(_values(of.relation.schema.field(where).type)[1:])
    condition = pc.field(where) >= least if chance.random() < 0.3 else None
    aggregates = {"rows_": agg.count(), "made_": agg.Aggregate(function, name, condition)}
    grouped = of.relation.aggregate(aggregates, group_by=by or None)

    def answer(tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        groups = dict[Any, list[Row]]() if by else {(): list[Row]()}
        for row in of.answer(tables):
            groups.setdefault(tuple(row[each] for each in by), []).append(row)
        made = list[Row]()
        for group, rows in groups.items():
            counted = [row for row in rows if condition is None or (row[where] is not None and row[where] >= least)]
            values = [row[name] for row in counted if row[name] is not None]
            made.append({**dict(zip(by, group, strict=True)), "rows_": len(rows), "made_": functions[function](values)})
        return made

    return Made(grouped, answer)


def _distinct(chance: random.Random, depth: int) -> Made:
    of = _selected(chance, depth)

    def answer(tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        return [*{tuple(row.items()): row for row in of.answer(tables)}.values()]

    return Made(of.relation.distinct(), answer)


def _united(chance: random.Random, depth: int) -> Made:
    one = view(chance, depth - 1)
    field = chance.choice(list(one.relation.schema))
    name, least = field.name, chance.choice(_values(field.type)[1:])
    other = one.relation.filter(pc.field(name) <= least)

    def answer(tables: Mapping[str, Sequence[Row]]) -> list[Row]:
        rows = one.answer(tables)
        return [*rows, *(row for row in rows if row[name] is not None and row[name] <= least)]

    return Made(one.relation.union(other), answer)


def _is_text(field: pa.Field) -> bool:
    return bool(pa.types.is_string(field.type))
