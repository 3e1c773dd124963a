"""Checks of a transform's options, made at construction."""

from collections.abc import Callable
from typing import Any, get_args


def choice(option: str, given: Any, choices: Any) -> Any:
    """The given choice; raises ``ValueError`` that lists the choices of the ``Literal``.

    >>> from typing import Literal
    >>> choice("how", "left", Literal["inner", "left"])
    'left'
    """
    if given not in get_args(choices):
        raise ValueError(f"{option}={given!r}: choose one of {', '.join(map(repr, get_args(choices)))}")
    return given


def function(option: str, given: Any, what: str) -> Callable[..., Any]:
    """The given function; raises ``ValueError`` if it is none, saying of ``what`` it should be.

    >>> function("joiner", max, "of the left and the right value") is max
    True
    """
    if not callable(given):
        raise ValueError(f"{option}={given!r}: give a function {what}")
    checked: Callable[..., Any] = given
    return checked


OF_AGGREGATE = "of the aggregate and a value"


def initial_of(initial: Any) -> Callable[[], Any]:
    """The function that gives the first aggregate; raises ``ValueError`` for a container, which all groups would share.

    >>> initial_of(0)(), initial_of(list)()
    (0, [])
    """
    if isinstance(initial, list | dict | set | bytearray):
        raise ValueError(f"initial={initial!r} would be shared by all groups: give a function, such as {type(initial).__name__}")
    return initial if callable(initial) else lambda: initial
