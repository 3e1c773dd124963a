"""Functions of rows as YAML writes them: Python expressions of columns, as in Beam's own ``Filter`` and
``MapToFields``.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from beam_joins.functions.joiner import SIDES


class Expression:
    """A function of key and value: an expression of the columns of the value, or of ``value``, a value without columns.

    >>> Expression("predicate", "amount > 5")(7, {"amount": 6})
    True
    """

    def __init__(self, option: str, text: str) -> None:
        """Raises ``ValueError`` for a text that is no expression."""
        tree, names, bound = _parsed(option, text, "amount > 5")
        self._option, self._text = option, text
        self._values = sorted(({node.id for node in _operands(tree.body)} & bound) - {node.id for node in names if _is_bound(node)})
        self._names = sorted(({node.id for node in names} - bound) | {*self._values})
        self._code = compile(tree, option, "eval")

    def require(self, columns: Iterable[str], side: str = "") -> None:
        """Raise ``ValueError`` for a column that is not among these."""
        if missing := [name for name in self._names if name not in columns]:
            raise ValueError(f"{self._option}={self._text!r}: there is no column {missing[0]}; there are {', '.join(columns)}")

    def __call__(self, key: Any, value: Any) -> Any:
        """The value of the expression."""
        columns = {**value} if isinstance(value, Mapping) else {"value": value}
        for name in self._values:
            if name not in columns:  # else it would be a function of Python's
                raise NameError(f"name {name!r} is not defined")
        return eval(self._code, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._option, self._text)

    def __repr__(self) -> str:
        return repr(self._text)


def _parsed(option: str, text: str, example: str) -> tuple[ast.Expression, list[ast.Name], set[str]]:
    """The tree of an expression, its names, and those of them that are no columns. Raises ``ValueError``."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"{option}={text!r}: give a Python expression of columns, such as {example!r} ({error})") from None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return tree, names, {node.id for node in names if _is_bound(node)} | {*dir(builtins)}


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _operands(tree: ast.expr) -> Iterator[ast.Name]:
    """The names that stand for values and not for functions or types, as ``id`` in ``id > 5``."""
    operands = [tree]
    for node in ast.walk(tree):
        match node:
            case ast.BinOp():
                operands += [node.left, node.right]
            case ast.BoolOp():
                operands += node.values
            case ast.UnaryOp():
                operands.append(node.operand)
            case ast.Compare() if not any(_is_type(each) for each in (node.left, *node.comparators)):
                operands += [node.left, *node.comparators]
    return (each for each in operands if isinstance(each, ast.Name))


def _is_type(node: ast.expr) -> bool:
    """Whether an expression is the type of a value."""
    return isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
    )


class PairExpression:
    """A function of a left and a right value: an expression of their columns.

    >>> PairExpression("condition", "left.at < right.at")({"at": 5}, {"at": 6})
    True
    """

    def __init__(self, option: str, text: str) -> None:
        """Raises ``ValueError`` for a text that is no expression, and for names of anything but columns."""
        tree, names, bound = _parsed(option, text, "left.at < right.at")
        if other := sorted({node.id for node in names} - bound - {*SIDES}):
            raise ValueError(f"{option}={text!r}: {other[0]} is no column: write left.{other[0]} or right.{other[0]}")
        self._option, self._text = option, text
        self._columns = {
            (node.value.id, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        self._code = compile(tree, option, "eval")

    def require(self, columns: Iterable[str], side: str = "") -> None:
        """Raise ``ValueError`` for a column of a side that is not among these."""
        if missing := sorted(name for of_side, name in self._columns if of_side == side and name not in columns):
            raise ValueError(
                f"{self._option}={self._text!r}: the {side} table has no column {missing[0]}; it has {', '.join(columns)}"
            )

    def __call__(self, left: Any, right: Any) -> Any:
        """The value of the expression."""
        return eval(self._code, {side: SimpleNamespace(**value) for side, value in zip(SIDES, (left, right), strict=True)})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._option, self._text)

    def __repr__(self) -> str:
        return repr(self._text)


class Expressions:
    """A function of key and value that returns several columns, each by an expression.

    >>> Expressions("fn", {"total": "price * count"})(7, {"price": 2, "count": 3})
    {'total': 6}
    """

    def __init__(self, option: str, texts: Mapping[str, str]) -> None:
        """Raises ``ValueError`` for a text that is no expression."""
        self._columns = {name: Expression(f"{option}: {name}", text) for name, text in texts.items()}

    def require(self, columns: Iterable[str], side: str = "") -> None:
        """Raise ``ValueError`` for a column that is not among these."""
        for expression in self._columns.values():
            expression.require(columns)

    def __call__(self, key: Any, value: Any) -> dict[str, Any]:
        """The columns."""
        return {name: expression(key, value) for name, expression in self._columns.items()}

    def __repr__(self) -> str:
        return repr(self._columns)
