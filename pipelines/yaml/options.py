"""The options of a public transform in YAML, as its signature and docstring state them."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import apache_beam as beam
import pyarrow as pa

from beam_joins.functions.aggregate_functions import Aggregate, aggregates_of
from beam_joins.pipelines.base.declared_options import bullets
from beam_joins.pipelines.yaml.expression import Expression, Expressions, PairExpression

_OF_FUNCTION: Final = "the type of what a function returns"
NOT_IN_YAML: Final = {
    **{f"AggregateTable.{option}": "a function, or the value that one begins with" for option in ("initial", "add", "subtract")},
    "completed_by": "a function for values that are not rows",
    "key_mapper": "a function",
    "key_inverse": "a function",
    "window_of": "a function, for windowed tables",
    "stream_schema": "rows have a schema",
    "stream_schemas": "rows have a schema",
    "TableFromChangelog.schema": "rows have a schema",
    **dict.fromkeys(
        [f"{join}.schema" for join in ("ForeignKeyJoin", "OneToManyJoin", "ManyToManyJoin", "TableTableJoin")], _OF_FUNCTION
    ),
    **dict.fromkeys([f"{join}.schema" for join in ("StreamTableJoin", "StreamForeignKeyJoin", "WindowedStreamJoin")], _OF_FUNCTION),
}
"""The options, of all classes or of one, that YAML does not have, and why."""


class YamlForm(NamedTuple):
    """The form of an option in YAML: the type for Beam's documentation, the help's note to the docstring, and the
    conversion of a value, which gets the name of the option.
    """

    type: Any
    note: str = ""
    convert: Callable[[str, Any], Any] | None = None


class YamlOption(NamedTuple):
    """An option of a transform in YAML."""

    name: str
    help: str
    form: YamlForm
    default: Any = None

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    def value(self, written: Any) -> Any:
        """The value for the class. Raises ``ValueError``."""
        return written if written is None or self.form.convert is None else self.form.convert(self.name, written)


def options_of(transform: type[beam.PTransform[Any, Any]]) -> dict[str, YamlOption]:
    """The options of a public transform in YAML. Raises ``TypeError`` for an option of a type that YAML has no form for.

    >>> from beam_joins import SumTable
    >>> options_of(SumTable)["group_by"].value(["city"])
    'city'
    """
    if transform.__init__ is beam.PTransform.__init__:
        return {}
    options = {}
    for name, parameter in inspect.signature(transform).parameters.items():
        if not {name, f"{transform.__name__}.{name}"} & {*NOT_IN_YAML}:
            form = _form(transform, parameter)
            options[name] = YamlOption(name, " ".join(filter(None, (_text(transform, name), form.note))), form, parameter.default)
    return options


def _text(transform: type[Any], name: str) -> str:
    """The text of an option in the docstring of its class, or of the class that this text refers to."""
    text = bullets(inspect.cleandoc(transform.__doc__ or "")).get(name, "")
    other = re.fullmatch(r"as (?:of|in) :class:`~([\w.]+)\.(\w+)`\.", text)
    return _text(getattr(import_module(other[1]), other[2]), name) if other else _plain(text)


def summary(transform: type[beam.PTransform[Any, Any]]) -> str:
    """The first paragraph of the docstring."""
    return _plain(inspect.cleandoc(transform.__doc__ or "").partition("\n\n")[0])


def _plain(text: str) -> str:
    """A text of a docstring on one line of Markdown."""
    return " ".join(re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`").split())


def _form(transform: type[beam.PTransform[Any, Any]], parameter: inspect.Parameter) -> YamlForm:
    if parameter.name in _EXPRESSIONS:
        return _EXPRESSIONS[parameter.name]
    kind = parameter.annotation
    types = get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]
    for has, form in _FORMS:
        if has(types):
            return form
    raise TypeError(f"{transform.__name__}: YAML has no form for {parameter}: add one, or the option to NOT_IN_YAML")


def _one_or_several(name: str, value: Any) -> Any:
    """A list of one name is the name."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _aggregates(name: str, given: Any) -> Any:
    """A map of columns to aggregates, of which each may be a map of ``aggregate`` and ``where``."""
    if not isinstance(given, Mapping):
        return given
    return {column: _aggregate(f"{name}: {column}", each) for column, each in given.items()}


def _aggregate(name: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    if {*given} != {"aggregate", "where"}:
        raise ValueError(f"{name}: give an aggregate, such as sum(amount), or a map of aggregate and where")
    made = aggregates_of(name, {"aggregate": given["aggregate"]})["aggregate"]
    return Aggregate(made.function, made.of, Expression(f"{name}: where", given["where"]))


def _schema(name: str, types: Any) -> Any:
    """A map of columns to types, or of tables to such maps; any other value is an option of the class."""
    if not isinstance(types, Mapping):
        return types
    if any(isinstance(each, Mapping) for each in types.values()):
        return {table: _schema(f"{name}: {table}", each) for table, each in types.items()}
    return pa.schema([(column, _type(f"{name}: {column}", kind)) for column, kind in types.items()])


def _type(column: str, kind: Any) -> pa.DataType:
    try:
        return pa.type_for_alias(kind)
    except (ValueError, TypeError):
        raise ValueError(f"{column}: {kind} is no type of Arrow: write int64, double, string, timestamp[us] and so on") from None


_FORMS: Final[Sequence[tuple[Callable[[Sequence[Any]], bool], YamlForm]]] = (
    (
        lambda types: pa.Schema in types,
        YamlForm(
            Mapping[str, str],
            "In YAML a map of columns to types of Arrow, such as `int64`, `double`, `string`, `timestamp[us]`.",
            _schema,
        ),
    ),
    (lambda types: timedelta in types, YamlForm(float, "In YAML seconds.")),
    (lambda types: types == [float], YamlForm(float)),
    (lambda types: str in types and Sequence[str] in types, YamlForm(Sequence[str], convert=_one_or_several)),
    (lambda types: any(get_origin(each) in (Mapping, dict) for each in types), YamlForm(Mapping[str, Any])),
    (lambda types: bool in types, YamlForm(bool)),
    (lambda types: int in types, YamlForm(int)),
    (lambda types: str in types or any(get_origin(each) is Literal for each in types), YamlForm(str)),
    (lambda types: Sequence[str] in types, YamlForm(Sequence[str])),
)
"""The forms by the types of an option: the first that fits counts."""

_EXPRESSIONS: Final = {
    "aggregates": YamlForm(
        Mapping[str, Any],
        "In YAML a map of columns to texts, such as `total: sum(amount)`, or to maps of `aggregate` and `where`, an expression.",
        _aggregates,
    ),
    "condition": YamlForm(
        str, "In YAML a Python expression of the columns of both values, such as `left.start <= right.at`.", PairExpression
    ),
    "predicate": YamlForm(str, "In YAML a Python expression of the columns of the value, such as `amount > 5`.", Expression),
    "fn": YamlForm(
        Mapping[str, str], "In YAML a map of columns to Python expressions of columns, such as `total: price * count`.", Expressions
    ),
}
"""The functions that YAML writes as expressions."""
