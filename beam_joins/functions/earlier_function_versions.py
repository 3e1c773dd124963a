"""The versions of functions in states that were made before most values counted, which are compared where a state has no others.

They are computed as they were then, or an unchanged function of such a state would be told as changed.
"""

import enum
import os
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from operator import attrgetter, itemgetter, methodcaller
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_hexdigest

from beam_joins.functions.marked_functions import MarkedFunction
from beam_joins.functions.source_syntax import Syntax, names_of_code, syntax_of_class, syntax_of_function
from beam_joins.values.copying import IMMUTABLE

_SAID = "__beam_joins_version__"
_MOST = 10_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LIBRARIES = {"apache_beam", "beam_joins", "numpy", "pyarrow"}
_INSTALLED = {"site-packages", "dist-packages"}
_DICTS = {dict, defaultdict, OrderedDict, Counter, MappingProxyType}
_LISTS = {list, deque}
_SETS = {set, frozenset}


def earlier_function_version(value: Any) -> str | None:
    """The version of the functions and classes in an option's value, ``None`` if it has none, or if it was not the same in each
    process.
    """
    program = _Program()
    text = program.text(value)
    return xxh3_64_hexdigest(text.encode(errors="backslashreplace")) if program.has_functions and not program.is_random else None


class _Place(NamedTuple):
    """Where a module comes from: its top-level module or package, and the folder of that."""

    top: str
    folder: str | None
    is_installed: bool


def _place(module: str) -> _Place:
    loaded = sys.modules.get(module)
    spec = getattr(loaded, "__spec__", None) if module == "__main__" else None  # python -m
    top = (spec.name if spec else module).partition(".")[0]
    variables = vars(sys.modules.get(top, loaded)) if loaded else {}
    paths = list(variables.get("__path__") or ()) or [variables.get("__file__")]
    if isinstance(paths[0], str):
        folder = os.path.dirname(os.path.abspath(paths[0]))
        return _Place(top, folder, not _INSTALLED.isdisjoint(folder.split(os.sep)))
    return _Place(top, os.getcwd() if module == "__main__" else None, is_installed=False)


class _From(NamedTuple):
    """The place of the function that a value belongs to, and whether it names the value, or was given it."""

    place: _Place
    names: bool


class _Program:
    """Describes a value; functions, classes, objects and containers in it once each, one after the other."""

    def __init__(self) -> None:
        self.has_functions = self.is_random = False
        self._numbers: dict[int, int] = {}
        self._queue: list[tuple[Any, Callable[[], str]]] = []

    def text(self, value: Any) -> str:
        """The text of the value, and of all that it refers to."""
        texts = [self._value(value, None)]
        for described, describe in self._queue:  # which grows
            try:
                texts.append(describe())
            except Exception:  # a user's object may raise anything
                texts.append(_name(described))
        return "\n".join(texts)

    def _later(self, value: Any, describe: Callable[[], str]) -> str:
        """A number that stands for the value."""
        if id(value) not in self._numbers:
            if len(self._queue) == _MOST:
                return _name(type(value))
            self._numbers[id(value)] = len(self._queue)
            self._queue.append((value, describe))
        return f"#{self._numbers[id(value)]}"

    def _value(self, value: Any, of: _From | None) -> str:
        try:
            return _constant(value) or self._container(value, of) or self._function_like(value, of) or self._object(value, of)
        except Exception:  # a user's object may raise anything
            return _name(type(value))

    def _values(self, values: Iterable[Any], of: _From | None) -> str:
        return ", ".join([self._value(each, of) for each in values])

    def _items(self, items: Iterable[tuple[Any, Any]], of: _From | None) -> str:
        return ", ".join([f"{self._value(name, of)}: {self._value(value, of)}" for name, value in items])

    def _container(self, value: Any, of: _From | None) -> str | None:
        kind = type(value)
        if kind is tuple:
            return f"({self._values(value, of)})"
        if kind in _DICTS:
            return self._later(value, lambda: f"{_name(kind)}({self._items(value.items(), of)})")
        if kind in _SETS:
            self.is_random |= len({*map(_sort_key, value)}) < len(value)
            return self._later(value, lambda: f"{_name(kind)}({self._values(sorted(value, key=_sort_key), of)})")
        return self._later(value, lambda: f"{_name(kind)}({self._values(value, of)})") if kind in _LISTS else None

    def _function_like(self, value: Any, of: _From | None) -> str | None:
        if not callable(value):
            return None
        self.has_functions |= of is None
        if (said := _said(value)) is not None:
            return said
        if isinstance(value, type):
            return self._class(value, of)
        if isinstance(value, FunctionType):
            return self._function(value, of)
        if parts := _parts(value):
            return f"{_name(parts[0])}({self._values(parts[1:], of)})"
        return _name(value) if isinstance(getattr(value, "__name__", None), str) else None

    def _object(self, value: Any, of: _From | None) -> str:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return f"{self._class(kind, of)}.{value.name}"
        if isinstance(value, pc.Expression):
            if "\n  ...\n" not in (text := str(value)):
                return text
            self.has_functions |= of is None
            return f"{text} {xxh3_64_hexdigest(value.__reduce__()[1][0])}"
        has_fields = is_dataclass(value) or (isinstance(value, tuple) and hasattr(kind, "_fields"))
        if _is_foreign(_place(kind.__module__)):
            return _ADDRESS.sub("", repr(value)) if has_fields else _name(kind)
        if has_fields or _is_followed(kind.__module__, of):
            return self._later(value, lambda: f"{self._class(kind, of)}({self._state(value, of)})")
        return _name(kind)

    def _state(self, value: Any, of: _From | None) -> str:
        """What pickle writes of an object."""
        reduced = value.__reduce_ex__(2)
        if isinstance(reduced, str):
            return reduced
        _, arguments, state, *items = (*reduced, None, None, None)[:5]
        texts = [self._value(each, of) for each in arguments if each is not type(value)]
        for each in state if isinstance(state, tuple) else (state,):
            texts.append(self._items(sorted(each.items()), of) if isinstance(each, dict) else self._value(each, of))
        texts += [self._values(each or (), of) for each in items]
        return "; ".join(texts)

    def _class(self, cls: type, of: _From | None) -> str:
        if (said := _said(cls)) is not None:
            return said
        return self._later(cls, lambda: self._text_of_class(cls)) if _is_followed(cls.__module__, of) else _name(cls)

    def _text_of_class(self, cls: type) -> str:
        place = _place(cls.__module__)
        syntax = syntax_of_class(cls)
        named = _From(place, names=True)
        texts = [f"class {cls.__name__}", *(self._class(base, named) for base in cls.__bases__)]
        members = {name: _called(each) for name, each in sorted(vars(cls).items(), key=itemgetter(0))}
        methods = {  # those of others are generated
            name: each
            for name, each in members.items()
            if isinstance(each, FunctionType) and each.__globals__.get("__name__") == cls.__module__
        }
        values = {name: each for name, each in members.items() if name[0] != "_" and not isinstance(each, FunctionType)}
        if syntax is None:
            fields = {name: _ADDRESS.sub("", ascii(hint)) for name, hint in cls.__annotations__.items()}
            values |= {"fields": getattr(cls, "_fields", ()), "defaults": getattr(cls, "_field_defaults", {}), "types": fields}
            return "\n".join([*texts, self._items((values | methods).items(), named)])
        texts += [syntax.text, self._items(((name, each) for name, each in values.items() if type(each) in IMMUTABLE), named)]
        texts += self._variables(syntax.names, getattr(sys.modules.get(cls.__module__), "__dict__", {}), syntax, place)
        for each in methods.values():
            if (of_method := syntax_of_function(each)) is not None:
                texts += self._cells(each, of_method, place)
        return "\n".join(texts)

    def _function(self, function: FunctionType, of: _From | None) -> str:
        module = function.__globals__.get("__name__") or function.__module__ or ""
        place, presented = _place(module), _place(function.__module__ or module)
        # a decorator that pip installed makes functions that functools.wraps presents as the user's
        if _is_followed(module, of) and not (place.is_installed and place.top != presented.top):
            return self._later(function, lambda: self._text_of_function(function, place, presented))
        return self._later(function, lambda: self._text_of_decorator(function, place, presented))

    def _text_of_function(self, function: FunctionType, place: _Place, presented: _Place) -> str:
        code, syntax = function.__code__, syntax_of_function(function)
        names = names_of_code(code)
        return "\n".join(
            [
                f"def {function.__name__} {syntax.text if syntax else _bytecode(code)}",
                *self._defaults(function, syntax, presented),
                *self._cells(function, syntax, presented),
                *self._variables(names & syntax.names if syntax else names, function.__globals__, syntax, place),
            ]
        )

    def _text_of_decorator(self, function: FunctionType, place: _Place, presented: _Place) -> str:
        """The text of a function that is not followed: its name, and what it wraps."""
        text, inner = f"{place.top}:{function.__code__.co_qualname}", vars(function)
        if not _is_foreign(place):
            return "\n".join([text, *self._cells(function, None, presented)])
        # versions of Python differ in the variables of its functions
        registry = sorted(dict(inner.get("registry", {})).items(), key=lambda item: _name(item[0]))
        return f"{text}({self._values([inner.get('__wrapped__'), *registry], _From(presented, names=False))})"

    def _defaults(self, function: FunctionType, syntax: Syntax | None, place: _Place) -> Iterator[str]:
        code, values = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        for name, value in (*zip(names, values, strict=True), *sorted((function.__kwdefaults__ or {}).items())):
            yield self._variable(name, value, syntax, _From(place, names=False))

    def _cells(self, function: FunctionType, syntax: Syntax | None, place: _Place) -> Iterator[str]:
        """The variables of the functions around it."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in sorted(cells):
            try:
                value = cells[name].cell_contents
            except ValueError:
                yield f"{name} is not assigned"
            else:
                yield self._variable(name, value, syntax, _From(place, names=False))

    def _variables(self, names: Iterable[str], variables: Mapping[str, Any], syntax: Syntax | None, place: _Place) -> Iterator[str]:
        """The global variables among the names."""
        for name in sorted(names):
            if name in variables and not name.startswith("__"):
                yield self._variable(name, variables[name], syntax, _From(place, names=True))

    def _variable(self, name: str, value: Any, syntax: Syntax | None, of: _From) -> str:
        modified = [path for path in syntax.modified if path[:1] == (name,)] if syntax else []
        if not isinstance(value, ModuleType):
            return f"{name} is a {self._class(type(value), of)}" if modified else f"{name} = {self._value(value, of)}"
        texts = [f"{name} is {value.__name__.partition('.')[0].lstrip('_')}"]
        for path in sorted(syntax.paths) if syntax and _is_followed(value.__name__, of) else ():
            if path[:1] == (name,) and path not in modified and not isinstance(attribute := _attribute(value, path[1:]), ModuleType):
                texts.append(f"{'.'.join(path)} = {self._value(attribute, of)}")
        return "\n".join(texts)


def _is_foreign(place: _Place) -> bool:
    return place.top in sys.stdlib_module_names or place.top in _LIBRARIES


def _is_followed(module: str, of: _From | None) -> bool:
    """Whether functions and classes of a module belong to the program."""
    place = _place(module)
    if _is_foreign(place):
        return False
    if of is None or place.top == of.place.top:
        return True
    return not place.is_installed and (not of.names or (place.folder == of.place.folder is not None))


def _attribute(module: ModuleType, path: Iterable[str]) -> Any:
    """The value at a path of attributes up to what is no module; attributes that are loaded on use are left
    out.
    """
    value: Any = module
    for name in path:
        if not isinstance(value, ModuleType):
            break
        value = vars(value).get(name)
    return value


def _parts(value: Any) -> tuple[Any, ...]:
    """A callable or class that names how a callable is made, and what it is made of; nothing if it is not
    made of others.
    """
    parts: tuple[Any, ...] = ()
    match value:
        case MarkedFunction():
            parts = type(value), value.function
        case partial():
            parts = partial, value.func, value.args, tuple(sorted(value.keywords.items()))
        case MethodType():
            parts = MethodType, value.__func__, value.__self__
        case BuiltinFunctionType():
            parts = () if isinstance(value.__self__, ModuleType | None) else (value, value.__self__)
        case itemgetter() | attrgetter() | methodcaller():
            parts = type(value), value.__reduce__()[1]
        case _ if (wrapped := getattr(value, "__wrapped__", None)) is not None and not _is_foreign(_place(value.__module__)):
            parts = type(value), wrapped  # functools.lru_cache
    return parts


def _is_simple(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple):
        return IMMUTABLE.issuperset(map(type, value))
    return kind in IMMUTABLE or (kind is dict and _is_simple([*value]) and _is_simple([*value.values()]))


def _constant(value: Any) -> str | None:
    """The text of a simple value, ``None`` for others."""
    kind = type(value)
    text: str | None = None
    if _is_simple(value) or get_origin(value) is not None:  # list[int] can be called, as classes can
        text = ascii(value)
    elif isinstance(value, re.Pattern):
        text = f"pattern {value.pattern!a} {int(value.flags)}"
    elif isinstance(value, np.generic | np.ndarray) and value.size <= _MOST and value.dtype != object:
        text = f"{value.dtype.str} {value.tolist()!a}"
    elif isinstance(value, pa.DataType | pa.Field | pa.Schema):
        text = f"{_name(kind)} {value}"
    elif isinstance(value, pa.Scalar):
        text = f"{value.type} {value.as_py()!a}"
    elif isinstance(value, pa.Array | pa.ChunkedArray) and len(value) <= _MOST:
        text = f"{value.type} {value.to_pylist()!a}"
    return text if text is None else _ADDRESS.sub("", text)


def _sort_key(value: Any) -> str:
    """A text that orders the elements of a set, the same in each process."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_sort_key, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_sort_key, value)))}}}"
    return _constant(value) or _name(value)


def _bytecode(code: CodeType) -> str:
    version = ".".join(map(str, sys.version_info[:2]))
    consts = [_bytecode(each) if isinstance(each, CodeType) else _sort_key(each) for each in code.co_consts]
    return f"Python {version} {code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


def _called(member: Any) -> Any:
    """The function of a class's member."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _said(value: Any) -> str | None:
    """The version that :func:`versioned` gave to a function."""
    version = getattr(value, "__dict__", {}).get(_SAID)
    return f"version {version!a}" if isinstance(version, str) else None


def _name(value: Any) -> str:
    """The qualified name of a function or class, without the modules within its package, as these change."""
    kind = type(value)
    try:
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        module = getattr(value, "__module__", None)
    except Exception:  # a user's object may raise anything
        name = module = None
    if not isinstance(name, str):
        name, module = kind.__qualname__, kind.__module__
    return f"{(module if isinstance(module, str) else kind.__module__).partition('.')[0].lstrip('_')}:{name}"
