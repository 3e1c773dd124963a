"""Functions of rows as YAML writes them: Python expressions of columns, as in Beam's own ``Filter`` and
``MapToFields``.
"""

import ast
import builtins
from collections.abc import Iterable, Mapping
from typing import Any


class Expression:
    """A function of key and value: an expression of the columns of the value, or of ``value``, a value without columns.

    >>> Expression("predicate", "amount > 5")(7, {"amount": 6})
    True
    """

    def __init__(self, option: str, text: str) -> None:
        """Raises ``ValueError`` for a text that is no expression."""
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, TypeError, ValueError) as error:
            raise ValueError(f"{option}={text!r}: give a Python expression of columns, such as 'amount > 5' ({error})") from None
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | {*dir(builtins)}
        self._option, self._text = option, text
        self._names = sorted({node.id for node in names} - bound)
        self._code = compile(tree, option, "eval")

    def require(self, columns: Iterable[str]) -> None:
        """Raise ``ValueError`` for a column that is not among these."""
        if missing := [name for name in self._names if name not in columns]:
            raise ValueError(f"{self._option}={self._text!r}: there is no column {missing[0]}; there are {', '.join(columns)}")

    def __call__(self, key: Any, value: Any) -> Any:
        """The value of the expression."""
        return eval(self._code, {**value} if isinstance(value, Mapping) else {"value": value})

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

    def require(self, columns: Iterable[str]) -> None:
        """Raise ``ValueError`` for a column that is not among these."""
        for expression in self._columns.values():
            expression.require(columns)

    def __call__(self, key: Any, value: Any) -> dict[str, Any]:
        """The columns."""
        return {name: expression(key, value) for name, expression in self._columns.items()}

    def __repr__(self) -> str:
        return repr(self._columns)
