"""Checks of a transform's options, made at construction."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args


def choice(option: str, value: Any, choices: Any) -> Any:
    """The given choice; raises ``ValueError`` that lists the choices of the ``Literal``.

    >>> from typing import Literal
    >>> choice("how", "left", Literal["inner", "left"])
    'left'
    """
    if value not in get_args(choices):
        raise ValueError(f"{option}={value!r}: choose one of {', '.join(map(repr, get_args(choices)))}")
    return value


def function(option: str, value: Any, what: str) -> Callable[..., Any]:
    """The given function; raises ``ValueError`` if it is not callable; ``what`` names its arguments in the
    message.

    >>> function("joiner", max, "of the left and the right value") is max
    True
    """
    if not callable(value):
        raise ValueError(f"{option}={value!r}: give a function {what}")
    checked: Callable[..., Any] = value
    return checked


def flag(option: str, value: Any) -> bool:
    """True or False; raises ``ValueError`` for anything else."""
    if not isinstance(value, bool):
        raise ValueError(f"{option}={value!r}: give True or False")
    return value


def text(option: str, value: Any, what: str, *, empty: bool = False) -> str:
    """The text; raises ``ValueError`` if it is none, or empty without ``empty=True``; ``what`` describes it
    in the message.

    >>> text("path", 7, "the path of a file")
    Traceback (most recent call last):
    ValueError: path=7: give the path of a file
    """
    if not isinstance(value, str) or not (value or empty):
        raise ValueError(f"{option}={value!r}: give {what}")
    return value


def columns(option: str, value: Any, *, none: bool = False) -> list[str]:
    """The names of columns, given as one or several; raises ``ValueError`` for anything else, and for no
    names without ``none=True``.

    >>> columns("key", "id"), columns("key", ["shop", "id"])
    (['id'], ['shop', 'id'])
    """
    several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    names = list(value) if several else [value]
    if not (names or none) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{option}={value!r}: give the name of a column, or several")
    return names


OF_AGGREGATE = "of the aggregate and a value"


def initial_of(initial: Any) -> Callable[[], Any]:
    """The function that gives the first aggregate; raises ``ValueError`` for a container, which all groups
    would share.

    >>> initial_of(0)(), initial_of(list)()
    (0, [])
    """
    if isinstance(initial, list | dict | set | bytearray):
        raise ValueError(f"initial={initial!r} would be shared by all groups: give a function, such as {type(initial).__name__}")
    return initial if callable(initial) else lambda: initial
