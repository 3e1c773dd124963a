"""Relations: the nodes of a view. They are immutable, and equal where they mean the same."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, get_args

import pyarrow as pa

from beam_joins.functions.aggregate_functions import Aggregate, aggregates_of
from beam_joins.functions.column_expressions import EXPRESSIONS, Expression
from beam_joins.functions.expressions import evaluated, of_expression, without_rows
from beam_joins.functions.value_texts import text_of
from beam_joins.kernels.measures import Measure
from beam_joins.options.join_types import How

Column: TypeAlias = str | Expression
"""A column by its name, or an expression of columns."""
Columns: TypeAlias = str | Sequence[str]
"""The names of columns: one, or several."""
SIDES: Final = ("left", "right")


class Relation(ABC):
    """A table with columns, or rows that are made of those of others.

    Relations are made by :func:`beam_joins.views.table` and by their methods. ``str`` is the tree as lines of text.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows; one that is not nullable has no null."""

    @property
    @abstractmethod
    def inputs(self) -> "tuple[Relation, ...]":
        """The relations that the rows are made of."""

    @property
    def tables(self) -> "tuple[TableNode, ...]":
        """The tables that the rows come from, each once for every place where it is read."""
        return tuple(table for each in self.inputs for table in each.tables)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What two equal relations have in common beside their inputs, as texts."""
        return ()

    @abstractmethod
    def described(self) -> str:
        """The node in words, without its inputs."""

    def filter(self, predicate: Expression) -> "Relation":
        """The rows for which an Arrow expression of the columns is true; a null is false. It is evaluated for these rows alone, so
        that a filter may guard the next one. Raises ``ValueError``.
        """
        return FilterNode(self, predicate)

    def select(self, columns: Columns | Mapping[str, Column]) -> "Relation":
        """The rows with these columns only: by name, or ``{"name": "column", "twice": pc.field("n") * 2}``. Raises ``ValueError``."""
        if not isinstance(columns, Mapping):
            columns = {name: name for name in _names("select", columns)}
        if [*columns.items()] == [(name, name) for name in self.schema.names]:
            return self
        if isinstance(self, SelectNode) and all(isinstance(each, str) for each in columns.values()):
            self.require("select", [*map(str, columns.values())])
            return SelectNode(self.of, {name: self.columns[str(column)] for name, column in columns.items()})
        return SelectNode(self, dict(columns))

    def join(
        self,
        right: "Relation",
        *,
        on: Columns | None = None,
        left_on: Columns | None = None,
        right_on: Columns | None = None,
        how: How = "inner",
        condition: Expression | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> "Relation":
        """The pairs of rows whose columns ``on``, or ``left_on`` and ``right_on``, are equal; a null is equal to nothing.

        ``how`` is one of all kinds of joins: a semi or anti join gives left rows, with or without a match. ``condition`` holds
        beside the equality, an expression such as ``pc.field("left", "at") < pc.field("right", "at")``. ``columns`` are those of
        the result, ``{"city": "right.city"}``: by default all of both sides, and right ones whose names the left side
        has too with ``_right`` behind them; of a semi or anti join all left ones. Raises ``ValueError``.
        """
        if (on is None) == (left_on is None and right_on is None) or (left_on is None) != (right_on is None):
            raise ValueError("give the columns that are equal: on, with the same names in both relations, or left_on and right_on")
        pairs = [
            _names(option, given)
            for option, given in ((("on", on), ("on", on)) if on is not None else (("left_on", left_on), ("right_on", right_on)))
        ]
        if not isinstance(right, Relation):
            raise ValueError(f"join takes another relation, not {type(right).__name__}")
        made = _all_columns(self, right, how) if columns is None else dict(columns)
        return JoinNode(self, right, pairs[0], pairs[1], how, condition, made)

    def aggregate(self, aggregates: Mapping[str, Aggregate | str], *, group_by: Columns | None = None) -> "Relation":
        """One row for each group of rows, with its columns and :mod:`beam_joins.aggregates`, as in SQL: nulls in ``group_by`` are a
        group, and a group without rows has no row. Without ``group_by`` one row of all rows. Raises ``ValueError``.
        """
        return AggregateNode(self, () if group_by is None else _names("group_by", group_by), aggregates_of("aggregates", aggregates))

    def distinct(self) -> "Relation":
        """The different rows."""
        return DistinctNode(self)

    def union(self, *others: "Relation") -> "Relation":
        """The rows of this and other relations, all of them: columns meet by their names. A union of unions is one. Raises
        ``ValueError``.
        """
        rows = [each for of in (self, *others) for each in (of.relations if isinstance(of, UnionNode) else (of,))]
        return UnionNode(tuple(rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Relation) or type(self) is not type(other) or hash(self) != hash(other):
            return False
        return self is other or (self.meaning == other.meaning and self.inputs == other.inputs)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, indent: str = "") -> Iterator[str]:
        """The tree as lines, inputs below the node."""
        yield indent + self.described()
        for each in self.inputs:
            yield from each.lines(f"{indent}  ")

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, self.meaning, self.inputs))

    def require(self, option: str, names: Sequence[str]) -> None:
        """Raise ``ValueError`` for columns that are not there."""
        if absent := [name for name in names if name not in self.schema.names]:
            raise ValueError(f"{option}={absent[0]!r}: there is no such column; there are {', '.join(self.schema.names)}")


@dataclass(frozen=True, eq=False, repr=False)
class TableNode(Relation):
    """A table of the pipeline, by its name; ``columns`` are those that are read. A ``key`` of no columns is hidden."""

    name: str
    of_table: pa.Schema
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return pa.schema([self.of_table.field(column) for column in self.columns])

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """None."""
        return ()

    @property
    def tables(self) -> "tuple[TableNode, ...]":
        """The table itself."""
        return (self,)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """Name, columns and key."""
        return self.name, str(self.schema.remove_metadata()), self.key

    def described(self) -> str:
        """The name and the columns."""
        return f"table {self.name}: {', '.join(self.columns)}"


def table(name: str, schema: pa.Schema, *, key: Columns | None) -> Relation:
    """A table of the pipeline that a view reads, by the name under which it is an input of :class:`~beam_joins.View`.

    ``schema`` are the columns that the view may use, those of ``key`` among them, which are never null; ``None``: the key is of no
    columns. Raises ``ValueError``.

    >>> table("shops", pa.schema({"id": pa.int64(), "city": pa.string()}), key="id").schema.field("id").nullable
    False
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name={name!r}: give the name of the table")
    if not isinstance(schema, pa.Schema) or not schema.names or len({*schema.names}) < len(schema.names):
        raise ValueError(f"schema={schema!r}: give a pyarrow.Schema with columns of different names")
    keys = () if key is None else _names("key", key)
    if absent := [each for each in keys if each not in schema.names]:
        raise ValueError(f"key={absent[0]!r}: there is no such column; there are {', '.join(schema.names)}")
    fields = [field.with_nullable(field.nullable and field.name not in keys) for field in schema]
    return TableNode(name, pa.schema(fields), keys, tuple(schema.names))


@dataclass(frozen=True, eq=False, repr=False)
class _OfOne(Relation):
    """A relation whose rows are made of those of one other; by default with its columns."""

    of: Relation

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input."""
        return self.of.schema

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The input."""
        return (self.of,)


@dataclass(frozen=True, eq=False, repr=False)
class FilterNode(_OfOne):
    """The rows for which a predicate is true."""

    predicate: Expression

    def __post_init__(self) -> None:
        if (kind := _types(self.of, {"filter": self.predicate}, "filter")["filter"]) != pa.bool_():
            raise ValueError(f"filter={self.predicate} gives values of type {kind}: give an expression that is true or false")

    @property
    def meaning(self) -> tuple[Any, ...]:
        """The predicate."""
        return (text_of(self.predicate),)

    def described(self) -> str:
        """The predicate."""
        return f"filter {self.predicate}"


@dataclass(frozen=True, eq=False, repr=False)
class SelectNode(_OfOne):
    """The rows with other columns."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("select={}: give at least one column")
        wrong = [each for each in self.columns.values() if not isinstance(each, (str, *EXPRESSIONS))]
        if wrong:
            raise ValueError(f"select: {wrong[0]!r} is neither the name of a column nor an Arrow expression, pc.field('n') * 2")
        self.of.require("select", self.plain)
        _ = self.schema

    @property
    def plain(self) -> list[str]:
        """The columns of the input that are taken as they are."""
        return [column for column in self.columns.values() if isinstance(column, str)]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        computed = {name: each for name, each in self.columns.items() if not isinstance(each, str)}
        types = _types(self.of, computed, "select")
        return pa.schema(
            [
                self.of.schema.field(column).with_name(name) if isinstance(column, str) else pa.field(name, types[name])
                for name, column in self.columns.items()
            ]
        )

    @property
    def meaning(self) -> tuple[Any, ...]:
        """The columns."""
        return tuple((name, text_of(column)) for name, column in self.columns.items())

    def described(self) -> str:
        """The columns."""
        return f"select {', '.join(name if name == str(column) else f'{name} = {column}' for name, column in self.columns.items())}"


@dataclass(frozen=True, eq=False, repr=False)
class JoinNode(Relation):
    """Pairs of rows whose columns are equal, or the rows of one side with or without such a pair."""

    left: Relation
    right: Relation
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    how: How
    condition: Expression | None
    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ValueError(f"how={self.how!r}: choose one of {', '.join(map(repr, get_args(How)))}")
        if len(self.left_on) != len(self.right_on):
            raise ValueError(f"left_on={list(self.left_on)} and right_on={list(self.right_on)}: give as many columns of each side")
        self.left.require("left_on", self.left_on)
        self.right.require("right_on", self.right_on)
        if not self.columns:
            raise ValueError("columns={}: give at least one column")
        _ = self.schema
        if self.condition is not None:
            rows = pa.table([pa.nulls(0, pa.struct(list(each.schema))) for each in self.inputs], names=list(SIDES))
            kind = evaluated(f"condition={self.condition}", {"condition": self.condition}, rows)["condition"].type
            if kind != pa.bool_():
                raise ValueError(f"condition={self.condition} gives values of type {kind}: give an expression that is true or false")

    @property
    def is_of_left(self) -> bool:
        """Whether the result has left rows alone."""
        return self.how in ("semi", "anti")

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        return pa.schema([self._field(name, column) for name, column in self.columns.items()])

    def _field(self, name: str, column: str) -> pa.Field:
        side, dot, of_side = column.partition(".") if isinstance(column, str) else ("", "", "")
        if side not in SIDES[: 1 if self.is_of_left else 2] or not dot:
            sides = '"left.<column>"' if self.is_of_left else '"left.<column>" or "right.<column>"'
            raise ValueError(f"columns={{{name!r}: {column!r}}}: give {sides}; select computes others")
        self.inputs[SIDES.index(side)].require(f"columns: {side}", [of_side])
        field = self.inputs[SIDES.index(side)].schema.field(of_side)
        is_kept = self.how not in (("right", "outer") if side == "left" else ("left", "outer"))
        return field.with_name(name).with_nullable(field.nullable or not is_kept)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """Both sides."""
        return (self.left, self.right)

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What is equal, how rows without a match are kept, and the columns."""
        condition = "" if self.condition is None else text_of(self.condition)
        return self.left_on, self.right_on, self.how, condition, tuple(self.columns.items())

    def described(self) -> str:
        """What is equal, and how rows without a match are kept."""
        pairs = [one if one == other else f"{one} = {other}" for one, other in zip(self.left_on, self.right_on, strict=True)]
        beside = "" if self.condition is None else f" and {self.condition}"
        return f"{self.how} join on {', '.join(pairs)}{beside}"


@dataclass(frozen=True, eq=False, repr=False)
class AggregateNode(_OfOne):
    """A row for each group, with its columns and aggregates."""

    group_by: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]

    def __post_init__(self) -> None:
        self.of.require("group_by", self.group_by)
        if both := [name for name in self.group_by if name in self.aggregates]:
            raise ValueError(f"aggregates: {both[0]!r} is a column of group_by too: give the aggregate another name")
        _ = self.schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of groups and the aggregates."""
        fields = [self.of.schema.field(name) for name in self.group_by]
        return pa.schema([*fields, *(self._field(name, each) for name, each in self.aggregates.items())])

    def _field(self, name: str, aggregate: Aggregate) -> pa.Field:
        kind = pa.bool_()
        for option, spec in (("where", aggregate.where), ("of", aggregate.of)):
            if isinstance(spec, str):
                self.of.require(f"aggregates: {name}: {option}", [spec])
                kind = self.of.schema.field(spec).type
            elif isinstance(spec, of_expression):
                kind = _types(self.of, {option: spec.expression}, f"aggregates: {name}: {option}")[option]
            elif spec is not None:
                raise ValueError(f"aggregates: {name}: {option}={spec!r}: give the name of a column, or an Arrow expression")
            if option == "where" and kind != pa.bool_():
                raise ValueError(f"aggregates: {name}: where gives values of type {kind}: give one that is true or false")
        try:
            made = Measure(aggregate.function, 0).type(kind)
        except ValueError as error:
            raise ValueError(f"aggregates: {name}: {error}") from None
        return pa.field(name, made, nullable=aggregate.function not in ("count", "count_distinct"))

    @property
    def meaning(self) -> tuple[Any, ...]:
        """The groups and the aggregates."""
        aggregates = [(name, each.function, _spec_text(each.of), _spec_text(each.where)) for name, each in self.aggregates.items()]
        return self.group_by, tuple(aggregates)

    def described(self) -> str:
        """The aggregates and the groups."""
        by = f" by {', '.join(self.group_by)}" if self.group_by else ""
        return f"aggregate {', '.join(f'{name} = {each}' for name, each in self.aggregates.items())}{by}"


@dataclass(frozen=True, eq=False, repr=False)
class DistinctNode(_OfOne):
    """The different rows."""

    def described(self) -> str:
        """Its name."""
        return "distinct"


@dataclass(frozen=True, eq=False, repr=False)
class UnionNode(Relation):
    """The rows of several relations."""

    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        if len(self.relations) < 2 or not all(isinstance(each, Relation) for each in self.relations):
            raise ValueError("union takes other relations: give at least one")
        _ = self.schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the first relation."""
        first, *others = self.relations
        fields = list(first.schema)
        for other in others:
            if {*other.schema.names} != {*first.schema.names}:
                names = f"{', '.join(first.schema.names)} and {', '.join(other.schema.names)}"
                raise ValueError(f"union: the relations have not the same columns, {names}: select them")
            for n, field in enumerate(fields):
                of_other = other.schema.field(field.name)
                if of_other.type != field.type:
                    raise ValueError(f"union: the column {field.name!r} is {field.type} and {of_other.type}: cast one in a select")
                fields[n] = field.with_nullable(field.nullable or of_other.nullable)
        return pa.schema(fields)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        """The relations."""
        return self.relations

    def described(self) -> str:
        """Its name."""
        return "union"


def _names(option: str, given: Columns | None) -> tuple[str, ...]:
    """The names of columns; raises ``ValueError``."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
        raise ValueError(f"{option}={given!r}: give the name of a column, or several different ones")
    return names


def _all_columns(left: Relation, right: Relation, how: How) -> dict[str, str]:
    """The columns of both sides by default."""
    columns = {name: f"left.{name}" for name in left.schema.names}
    for name in () if how in ("semi", "anti") else right.schema.names:
        named = name
        while named in columns:
            named += "_right"
        columns[named] = f"right.{name}"
    return columns


def _types(of: Relation, expressions: Mapping[str, Expression], option: str) -> dict[str, pa.DataType]:
    """The types of expressions of a relation's columns; raises ``ValueError``."""
    if wrong := [each for each in expressions.values() if not isinstance(each, EXPRESSIONS)]:
        raise ValueError(f"{option}={wrong[0]!r}: give an Arrow expression of columns, such as pc.field('n') > 2")
    rows = without_rows(of.schema)
    return {name: evaluated(f"{option}={each}", {name: each}, rows)[name].type for name, each in expressions.items()}


def _spec_text(spec: Any) -> str | None:
    return text_of(spec.expression) if isinstance(spec, of_expression) else spec
