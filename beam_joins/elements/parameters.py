"""Generic classes whose parameters exist at run time: ``Change[int, str]`` is a class, of which every
``Change`` is an instance.

Beam's type hints use classes with ``isinstance`` and ``issubclass``, which the aliases of :mod:`typing` do
not support.
"""

import copyreg
from collections.abc import Callable
from typing import Any, TypeVar

_MADE: dict[tuple[type, Any, Any], "Parameterised"] = {}
_WATCHERS: list[tuple[type, Callable[[type], None]]] = []


class Parameterised(type):
    """The metaclass of classes with ``parameters``; ``details`` is further information on the instances."""

    origin: type
    parameters: tuple[Any, ...]
    details: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.origin)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if not issubclass(subclass, cls.origin):
            return False
        return not isinstance(subclass, Parameterised) or all(map(_fits, subclass.parameters, cls.parameters))

    @property
    def _fields(cls) -> tuple[str, ...]:
        """Not there: of two classes that have it, as named tuples do, Beam would make one type of rows where
        it flattens collections.
        """
        raise AttributeError(f"{cls.__qualname__} is a type hint: its fields are those of {cls.origin.__name__}")


def parameterised(origin: type, parameters: tuple[Any, ...], details: Any = None) -> type:
    """The class with these parameters, one object however often it is asked for.

    >>> class Box: pass
    >>> ints = parameterised(Box, (int,))
    >>> ints.__qualname__, ints is parameterised(Box, (int,)), isinstance(Box(), ints), issubclass(parameterised(Box, (bool,)), ints)
    ('Box[int]', True, True, True)
    """
    made = _MADE.get((origin, parameters, details))
    if made is None:
        name = f"{origin.__name__}[{', '.join(map(_name, parameters))}]"
        if name in globals():
            name += f"_{len(_MADE)}"
        fields = {"__slots__": (), "__module__": __name__, "origin": origin, "parameters": parameters, "details": details}
        made = _MADE[origin, parameters, details] = Parameterised(name, (origin,), fields)
        globals()[name] = made  # cloudpickle asks the reducer below only for what is found under its name
        for watched, call in _WATCHERS:
            if watched is origin:
                call(made)
    return made


def when_made(origin: type, call: Callable[[type], None]) -> None:
    """Call a function with every class with parameters that is, or will be, made of ``origin``."""
    _WATCHERS.append((origin, call))
    for made in list(_MADE.values()):
        if made.origin is origin:
            call(made)


def subscripted(cls: type, subscript: Any) -> type:
    """The result of ``cls[subscript]``: the class itself where type variables or nothing but ``Any`` are
    given, as in annotations.
    """
    parameters = subscript if isinstance(subscript, tuple) else (subscript,)
    if isinstance(cls, Parameterised) or all(parameter is Any or isinstance(parameter, TypeVar) for parameter in parameters):
        return cls
    return parameterised(cls, parameters)


def _fits(actual: Any, wanted: Any) -> bool:
    if actual == wanted or Any in (actual, wanted):
        return True
    return not (isinstance(actual, type) and isinstance(wanted, type)) or issubclass(actual, wanted)


def _name(parameter: Any) -> str:
    name = parameter.__qualname__ if isinstance(parameter, type) else str(parameter)
    return name.replace(".", "_")


def _again(origin: type, parameters: tuple[Any, ...], details: Any) -> Any:
    return parameterised(origin, parameters, details)


copyreg.pickle(Parameterised, lambda cls: (_again, (cls.origin, cls.parameters, cls.details)))
