"""The version of a function or another value: a digest of what it does by its text, which differs when that has changed."""

import enum
import os
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, partialmethod, singledispatchmethod
from importlib.util import find_spec, resolve_name
from operator import attrgetter, itemgetter, methodcaller
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, TypeVar
from weakref import CallableProxyType, ProxyType, ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from beam_joins.functions.marked_functions import MarkedFunction, displayed_name
from beam_joins.functions.source_syntax import Syntax, as_written, names_of_code, syntax_of_class, syntax_of_file, syntax_of_function
from beam_joins.functions.value_texts import ADDRESS, NAMESPACES, is_pickled, is_shown, sort_key, state_of, text_of

F = TypeVar("F", bound=Callable[..., Any])

_SAID = "__beam_joins_version__"
_MOST = 100_000
"""The largest number of functions, classes, objects and containers that are followed."""
_LIBRARIES = {"apache_beam", "beam_joins", "numpy", "pyarrow"}
"""Their functions count by name, as those of Python's own library do."""
_INSTALLED = {"site-packages", "dist-packages"}
_DICTS = {dict, defaultdict, OrderedDict, Counter, MappingProxyType}
_LISTS = {list, deque, *map(type, ({}.keys(), {}.values(), {}.items()))}
_SETS = {set, frozenset}
_DEEPEST = 3
"""The largest number of sets within sets that are in the order of all that their elements refer to."""
_NAMED = (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
    np.ufunc,
)
"""The functions written in C, which have a name alone."""
_CHANGING = (MutableMapping, MutableSequence, MutableSet)
_DYNAMIC = {"__dict__", "getattr", "vars"}
"""The names by which a function may ask for any attribute."""
_OF_STATEMENT = 1 << 9
"""The flag of a class that Python code has made."""
_OF_MODULES = {"__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
"""The variables of a module that say where it is."""


def versioned(version: str) -> Callable[[F], F]:
    """Says the version of a function itself, where it depends on more than its text: a file, a model, a
    program elsewhere.

    A run with ``--beam_joins_state`` compares the functions of its transforms with those of the run before.
    Of a function with a version only that is compared: give it another version when its results change. The
    same function is returned; the arguments of a ``functools.partial`` of it count beside the version.

    >>> @versioned("2")
    ... def category(key, product):
    ...     return model.predict(product)
    >>> joiner = versioned("2024-05")(lambda order, rate: rates[order["currency"]])
    """
    if not isinstance(version, str) or not version:
        raise ValueError(f'versioned({version!r}): give a text that is not empty, such as versioned("2")')

    def say(function: F) -> F:
        if not callable(function):
            raise ValueError(f"versioned({version!r}) was given {function!r}: give a function, or an object that is called")
        try:
            setattr(function, _SAID, version)
        except (AttributeError, TypeError) as error:
            raise ValueError(
                f"versioned({version!r}): {function!r} cannot carry a version: give a functools.partial or a lambda of it"
            ) from error
        return function

    return say


def function_version(value: Any) -> str | None:
    """The version of an option's value: of functions, classes and objects in it, ``None`` if its ``repr`` shows all of it.

    It is the same in each process, on each machine and in each version of Python. It differs when one of
    these changes:

    * the source of the function, but for comments, formatting, docstrings and the type hints of its arguments
    * its defaults and attributes, the variables of functions around it, and the global variables that it names: constants,
      lists, dicts, sets, arrays and tables by value, functions by their source and so on, classes by their source and
      attributes, objects by their class and what pickle writes of them
    * the functions and classes of the same program that it names, those that these name, and the source of the modules that
      they import when they are called. The program is its top-level package or module, and all that pip did not install.
      Installed packages and Python's library count by name.

    By the name of their type count: objects of a library that are not pickled (a connection, a lock), that it pickles as bytes
    (a model), loggers and random generators; a variable that a function changes (``global``, ``nonlocal``, ``seen.add(x)``,
    ``cache[key] = value``); and objects behind 100,000 others. Of a namespace count the attributes that functions name. What a
    function reads when it is called (files, the environment, the settings of a library) does not count.

    Dicts count in their order. Lambdas that begin on one line count together where they
    cannot be told apart (``python -X no_debug_ranges``).

    Without source (``exec``, ``python -c``, a file that was deleted before it was read) it is made of the
    bytecode and the version of Python; functions written in C count by name. So a function whose source
    exists in one of two runs only has changed; :func:`versioned` says its version where that matters.

    >>> function_version(partial(round, ndigits=1)) == function_version(partial(round, ndigits=2))
    False
    >>> function_version({"amount": "left.amount"})
    """
    if is_shown(value) or _is_named_alone(value):
        return None
    return xxh3_64_hexdigest(_Program().text(value).encode(errors="backslashreplace"))


def _is_named_alone(value: Any) -> bool:
    """Whether a function of this library counts by its name."""
    return displayed_name(value) is not None and _said(value.function if isinstance(value, MarkedFunction) else value) is None


class _Place(NamedTuple):
    """Where a module comes from: its top-level module or package, and the folder of that."""

    top: str
    folder: str | None
    is_installed: bool

    @property
    def is_foreign(self) -> bool:
        """Whether it is Python's library, or one that this package is made with."""
        return self.top in sys.stdlib_module_names or self.top in _LIBRARIES


def _place(module: str) -> _Place:
    loaded = sys.modules.get(module)
    spec = getattr(loaded, "__spec__", None) if module == "__main__" else None  # python -m
    top = (spec.name if spec else module).partition(".")[0]
    variables = vars(sys.modules.get(top, loaded)) if loaded else {}
    paths = list(variables.get("__path__") or ()) or [variables.get("__file__")]
    if isinstance(paths[0], str):
        folder = os.path.dirname(os.path.abspath(paths[0]))
        return _Place(top, folder, _is_installed(folder))
    return _Place(top, os.getcwd() if module == "__main__" else None, is_installed=False)


def _is_installed(path: str) -> bool:
    return not _INSTALLED.isdisjoint(path.split(os.sep))


class _Program:
    """Describes a value; functions, classes, objects and containers in it once each, one after the other.

    ``depth`` is the number of sets that the value is in.
    """

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._numbers: dict[int, int] = {}
        self._queue: list[tuple[Any, Callable[[], str]]] = []
        self._last: list[tuple[Any, Callable[[], str]]] = []
        self._names = set[str]()
        """The names and attributes in all functions."""
        self._modified = set[tuple[int, str]]()
        """The attributes of functions and classes, by their id, that functions change."""
        self._modules = set[str]()
        self._places: dict[str, _Place] = {}

    def text(self, value: Any, of: _Place | None = None) -> str:
        """The text of the value, and of all that it refers to."""
        texts = [self._value(value, of)]
        for described, describe in self._all():
            try:
                texts.append(describe())
            except Exception:  # a user's object may raise anything
                texts.append(_name(described))
        return "\n".join(texts)

    def _all(self) -> Iterator[tuple[Any, Callable[[], str]]]:
        """What is to be described; the attributes of classes and the like behind all functions."""
        described = 0
        while described < len(self._queue) or self._last:
            if described == len(self._queue):
                self._queue.append(self._last.pop(0))
            yield self._queue[described]
            described += 1

    def _later(self, value: Any, describe: Callable[[], str], *, last: bool = False) -> str:
        """A number that stands for the value."""
        if id(value) not in self._numbers:
            if len(self._numbers) == _MOST:
                return _name(type(value))
            self._numbers[id(value)] = len(self._numbers)
            (self._last if last else self._queue).append((value, describe))
        return f"#{self._numbers[id(value)]}"

    def _place(self, module: str) -> _Place:
        if module not in self._places:
            self._places[module] = _place(module)
        return self._places[module]

    def _is_followed(self, module: str | None, of: _Place | None) -> bool:
        """Whether functions and classes of a module belong to the program."""
        place = self._place(module or "")
        return not place.is_foreign and (of is None or place.top == of.top or not place.is_installed)

    def _value(self, value: Any, of: _Place | None) -> str:
        try:
            kind = type(value)
            if kind in (ProxyType, CallableProxyType):
                return f"{kind.__name__}({self._value(value.__repr__.__self__, of)})"
            text = text_of(value) or self._container(value, of) or self._function_like(value, of)
            return text or self._made_of(value, of) or self._object(value, of)
        except Exception:  # a user's object may raise anything
            return _name(type(value))

    def _values(self, values: Iterable[Any], of: _Place | None) -> str:
        return ", ".join([self._value(each, of) for each in values])

    def _items(self, items: Iterable[tuple[Any, Any]], of: _Place | None) -> str:
        return ", ".join([f"{self._value(name, of)}: {self._value(value, of)}" for name, value in items])

    def _container(self, value: Any, of: _Place | None) -> str | None:
        kind = type(value)
        if kind is tuple:
            return f"({self._values(value, of)})"
        if kind in _DICTS or isinstance(value, WeakKeyDictionary | WeakValueDictionary):
            made_by = getattr(value, "default_factory", None)
            return self._later(value, lambda: f"{_name(kind)}({self._value(made_by, of)}, {self._items(value.items(), of)})")
        if kind in _SETS or isinstance(value, WeakSet):
            return self._later(value, lambda: f"{_name(kind)}({self._values(self._sorted(value, of), of)})")
        if kind in _LISTS:
            return self._later(value, lambda: f"{_name(kind)}({getattr(value, 'maxlen', None)}, {self._values(value, of)})")
        return None

    def _sorted(self, values: Iterable[Any], of: _Place | None) -> list[Any]:
        """The elements of a set in an order that is the same in each process."""

        def key(value: Any) -> str:
            if self._depth == _DEEPEST or isinstance(value, enum.Enum):
                return sort_key(value)
            return text_of(value) or _Program(self._depth + 1).text(value, of)

        return sorted(values, key=key)

    def _function_like(self, value: Any, of: _Place | None) -> str | None:
        if not callable(value):
            return None
        if (said := _said(value)) is not None:
            return said
        if isinstance(value, type):
            return self._class(value, of)
        return self._function(value, of) if isinstance(value, FunctionType) else None

    def _made_of(self, value: Any, of: _Place | None) -> str | None:
        """The text of a callable, a method or the like that is made of others, or of one written in C."""
        if parts := _parts(value):
            return f"{_name(parts[0])}({self._values(parts[1:], of)})"
        if isinstance(value, _NAMED):
            return _name(value)
        wrapped = None if self._is_followed(_module_of_class(type(value)), of) else getattr(value, "__wrapped__", None)
        if wrapped is not None and not self._place(value.__module__).is_foreign:
            return f"{_name(type(value))}({self._value(wrapped, of)})"  # functools.lru_cache
        return None

    def _object(self, value: Any, of: _Place | None) -> str:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return f"{self._class(kind, of)}.{value.name or value.value!a}"
        if isinstance(value, ModuleType):
            return self._module(value) if self._is_followed(value.__name__, of) else value.__name__
        if isinstance(value, PurePath):
            return f"{kind.__name__} {_path_from(of, value)!a}"
        if kind in NAMESPACES:
            return self._later(value, lambda: f"{_name(kind)}({self._items(self._named_in(value), of)})", last=True)
        has_fields = is_dataclass(value) or (isinstance(value, tuple) and hasattr(kind, "_fields"))
        place, is_followed = self._place(kind.__module__), has_fields or self._is_followed(_module_of_class(kind), of)
        if is_followed or is_pickled(value, lambda each: self._is_of_program(each, of)):
            is_opaque = not is_followed and not place.is_foreign
            return self._later(value, lambda: f"{self._class(kind, of)}({self._state(value, of, is_opaque=is_opaque)})")
        return _name(value if callable(value) else kind)

    def _is_of_program(self, value: Any, of: _Place | None) -> bool:
        """Whether a part of a library's object counts by itself, or need not be pickled."""
        return isinstance(value, type | FunctionType | ModuleType) or self._is_followed(_module_of_class(type(value)), of)

    def _state(self, value: Any, of: _Place | None, *, is_opaque: bool) -> str:
        """What pickle writes of an object; the fields that a dataclass of a library shows; the table of a data frame that it
        writes as bytes.
        """
        if is_dataclass(value) and self._place(type(value).__module__).is_foreign:
            return self._values([getattr(value, each.name) for each in fields(value) if each.repr], of)
        try:
            return self._values([each for each in state_of(value, is_opaque=is_opaque) if each is not type(value)], of)
        except ValueError:
            if not hasattr(value, "__arrow_c_stream__"):
                raise
            return str(text_of(pa.table(value)))

    def _named_in(self, value: Any) -> list[tuple[str, Any]]:
        """The attributes of a namespace that functions name, or all where they may ask for them by other means."""
        is_dynamic = not self._names or not self._names.isdisjoint(_DYNAMIC)
        return sorted((name, each) for name, each in vars(value).items() if is_dynamic or name in self._names)

    def _module(self, module: ModuleType) -> str:
        """All variables of a module that is given as a value."""
        values = [
            (name, each) for name, each in sorted(vars(module).items()) if name not in _OF_MODULES and not isinstance(each, ModuleType)
        ]
        return self._later(module, lambda: f"module({self._items(values, self._place(module.__name__))})")

    def _class(self, cls: type, of: _Place | None) -> str:
        if (said := _said(cls)) is not None:
            return said
        if not self._is_followed(_module_of_class(cls), of):
            return _name(cls)
        if id(cls) not in self._numbers:
            self._last.append((cls, lambda: self._values_of_class(cls)))
        return self._later(cls, lambda: self._text_of_class(cls))

    def _text_of_class(self, cls: type) -> str:
        place, syntax = self._place(cls.__module__), syntax_of_class(cls)
        texts = [f"class {cls.__name__}", *(self._class(each, place) for each in (type(cls), *cls.__bases__))]
        methods = [(name, each) for name, member in sorted(vars(cls).items(), key=itemgetter(0)) for each in _functions_in(member)]
        own = [(name, each) for name, each in methods if _module_of(each) == cls.__module__]
        if syntax is None:
            with suppress(Exception):  # hints of names that there are none of
                texts += [f"{name}: {ADDRESS.sub('', ascii(hint))}" for name, hint in cls.__annotations__.items()]
            return "\n".join([*texts, self._items(own, place)])
        self._names |= {name for path in syntax.paths | syntax.quoted for name in path} | syntax.names
        names = {*syntax.names, *(path[0] for path in syntax.quoted)}
        names |= {f"_{cls.__name__.lstrip('_')}{name}" for name in names if name.startswith("__")}
        texts += [syntax.text, *self._variables(names, getattr(sys.modules.get(cls.__module__), "__dict__", {}), syntax, place)]
        texts += self._imported(syntax, cls.__module__, place)
        for name, each in methods:
            module, is_inside = _module_of(each), each.__qualname__.startswith(f"{cls.__qualname__}.")
            if (name, each) not in own or not is_inside:  # those that NamedTuple makes are of no module
                texts += [self._value(each, place)] if module in sys.modules and not self._place(module).is_foreign else []
            elif (of_method := syntax_of_function(each)) is not None:  # those of others are generated
                texts += [*self._defaults(each, of_method, place), *self._cells(each, of_method, place)]
                texts.append(self._attributes_of(each, place))
        return "\n".join(texts)

    def _values_of_class(self, cls: type) -> str:
        """The attributes of a class that are no methods."""
        place = self._place(cls.__module__)
        if issubclass(cls, enum.Enum):
            return self._items(((name, each.value) for name, each in cls.__members__.items()), place)
        values = [
            (name, each)
            for name, each in sorted(vars(cls).items(), key=itemgetter(0))
            if not _is_dunder(name) or (callable(each) and not isinstance(each, (type, *_NAMED)))
            if not _functions_in(each) and (id(cls), name) not in self._modified
        ]
        fields = [(name, (each.default, each.default_factory)) for name, each in vars(cls).get("__dataclass_fields__", {}).items()]
        return f"{self._items(values, place)} {self._items(fields, place)}"

    def _function(self, function: FunctionType, of: _Place | None) -> str:
        module = _module_of(function)
        place, presented = self._place(module), self._place(function.__module__ or module)
        # a decorator that pip installed makes functions that functools.wraps presents as the user's
        if self._is_followed(module, of) and not (place.is_installed and place.top != presented.top):
            return self._later(function, lambda: self._text_of_function(function, place, presented))
        return self._later(function, lambda: self._text_of_decorator(function, place, presented))

    def _text_of_function(self, function: FunctionType, place: _Place, presented: _Place) -> str:
        code, syntax = function.__code__, syntax_of_function(function)
        names = names_of_code(code)
        self._names |= names
        if syntax is not None:
            quoted = {name for path in syntax.quoted for name in path}
            self._names |= quoted
            names = {name for name in names if not syntax.names.isdisjoint((name, as_written(name)))}
            names |= {path[0] for path in syntax.quoted}
        return "\n".join(
            [
                f"def {function.__name__} {syntax.text if syntax else _bytecode(code)}",
                *self._defaults(function, syntax, presented),
                *self._cells(function, syntax, presented),
                *self._variables(names, function.__globals__, syntax, place),
                *(self._imported(syntax, _module_of(function), place) if syntax else ()),
                self._attributes_of(function, place),
            ]
        )

    def _attributes_of(self, function: FunctionType, place: _Place) -> str:
        if set(vars(function)) <= {"__wrapped__", "_type_hints"}:
            return ""
        return self._later(vars(function), lambda: f"attributes {self._items(self._unmodified(function), place)}", last=True)

    def _unmodified(self, function: FunctionType) -> list[tuple[str, Any]]:
        return [
            (name, value)
            for name, value in sorted(vars(function).items())
            if name not in ("__wrapped__", "_type_hints") and (id(function), name) not in self._modified
        ]

    def _text_of_decorator(self, function: FunctionType, place: _Place, presented: _Place) -> str:
        """The text of a function that is not followed: its name, and what it wraps."""
        text, inner = f"{place.top}:{function.__code__.co_qualname}", vars(function)
        if not place.is_foreign:
            return "\n".join([text, *self._cells(function, None, presented)])
        # versions of Python differ in the variables of its functions
        registry = sorted(dict(inner.get("registry", {})).items(), key=lambda item: _name(item[0]))
        return f"{text}({self._values([inner.get('__wrapped__'), *registry], presented)})"

    def _defaults(self, function: FunctionType, syntax: Syntax | None, place: _Place) -> Iterator[str]:
        code, values = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        for name, value in (*zip(names, values, strict=True), *sorted((function.__kwdefaults__ or {}).items())):
            yield self._variable(name, value, syntax, place)

    def _cells(self, function: FunctionType, syntax: Syntax | None, place: _Place) -> Iterator[str]:
        """The variables of the functions around it."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name in sorted(cells):
            try:
                value = cells[name].cell_contents
            except ValueError:
                yield f"{name} is not assigned"
            else:
                yield self._variable(name, value, syntax, place)

    def _variables(self, names: Iterable[str], variables: Mapping[str, Any], syntax: Syntax | None, place: _Place) -> Iterator[str]:
        """The global variables among the names."""
        for name in sorted(names):
            if name in variables and name not in _OF_MODULES:
                yield self._variable(name, variables[name], syntax, place)

    def _variable(self, name: str, value: Any, syntax: Syntax | None, of: _Place) -> str:
        modified = {path for path in syntax.modified if path[:1] == (name,)} if syntax else set()
        if isinstance(value, ModuleType):
            return self._paths_of(name, value, modified, syntax, of)
        if isinstance(value, type | FunctionType):
            self._modified.update((id(value), path[1]) for path in modified if path[1:])
            modified = set()
        elif syntax and modified <= syntax.called and not any(isinstance(_at(value, path[1:]), _CHANGING) for path in modified):
            modified = set()  # money.add(n) gives another value
        return f"{name} is a {self._class(type(value), of)}" if modified else f"{name} = {self._value(value, of)}"

    def _paths_of(self, name: str, module: ModuleType, modified: set[tuple[str, ...]], syntax: Syntax | None, of: _Place) -> str:
        texts = [f"{name} is {module.__name__.partition('.')[0].lstrip('_')}"]
        if not self._is_followed(module.__name__, of):
            return texts[0]
        paths = sorted(path for path in (syntax.paths | syntax.quoted if syntax else ()) if path[:1] == (name,) and path[1:])
        if not paths:
            return f"{texts[0]} {self._module(module)}"
        for path in paths:
            if path not in modified and not isinstance(attribute := _attribute(module, path[1:]), ModuleType):
                texts.append(f"{'.'.join(path)} = {self._value(attribute, of)}")
        return "\n".join(texts)

    def _imported(self, syntax: Syntax, module: str, of: _Place) -> Iterator[str]:
        """The source of the modules of the program that a function imports when it is called, without importing them."""
        package = getattr(sys.modules.get(module), "__package__", None)
        for source, name in sorted(syntax.imports):
            for each in (resolve_name(source, package), *([f"{resolve_name(source, package)}.{name}"] if name else [])):
                if each in self._modules or not self._is_followed(each, of):
                    continue
                self._modules.add(each)
                with suppress(Exception):  # there is no such module
                    spec = find_spec(each)
                    if spec and spec.origin and not _is_installed(spec.origin) and (whole := syntax_of_file(spec.origin)):
                        yield f"import {each} {whole.text}"
                        yield from self._imported(whole, f"{each}.__init__" if spec.submodule_search_locations else each, of)


def _attribute(module: ModuleType, path: Iterable[str]) -> Any:
    """The value at a path of attributes up to what is no module; of those that are loaded on use it is the function that does it."""
    value: Any = module
    for name in path:
        if not isinstance(value, ModuleType):
            break
        value = vars(value).get(name, vars(value).get("__getattr__"))
    return value


def _at(value: Any, path: Iterable[str]) -> Any:
    """The value at a path of attributes; the last one that there is."""
    for name in path:
        value = getattr(value, name, value)
    return value


def _path_from(place: _Place | None, path: PurePath) -> str:
    """A path, from the folder of the program where it is within it or around it."""
    if place is not None and place.folder is not None and path.is_absolute() and len(path.parts) > 1:
        folder = type(path)(place.folder)
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            return os.path.relpath(path, folder)
    return str(path)


def _parts(value: Any) -> tuple[Any, ...]:
    """A callable or class that names how a callable is made, and what it is made of; nothing if it is not
    made of others.
    """
    parts: tuple[Any, ...] = ()
    match value:
        case MarkedFunction():
            parts = type(value), value.function
        case partial():
            attributes = {name: each for name, each in vars(value).items() if name != _SAID}
            parts = type(value), value.func, value.args, tuple(sorted(value.keywords.items())), attributes
        case partialmethod():
            parts = partialmethod, value.func, value.args, tuple(sorted(value.keywords.items()))
        case MethodType():
            parts = MethodType, value.__func__, value.__self__
        case BuiltinFunctionType() | MethodWrapperType():
            parts = () if isinstance(value.__self__, ModuleType | None) else (value, value.__self__)
        case itemgetter() | attrgetter() | methodcaller():
            parts = type(value), *value.__reduce__()
        case property():
            parts = type(value), value.fget, value.fset, value.fdel
        case staticmethod() | classmethod():
            parts = type(value), value.__func__
        case cached_property():
            parts = cached_property, value.func
        case singledispatchmethod():
            parts = singledispatchmethod, value.dispatcher
        case ReferenceType():
            parts = ReferenceType, value()
        case GeneratorType() if value.gi_frame is not None:
            parts = GeneratorType, _bytecode(value.gi_code), value.gi_frame.f_lasti, dict(sorted(value.gi_frame.f_locals.items()))
    return parts


def _functions_in(member: Any) -> list[FunctionType]:
    """The functions in a member of a class."""
    if isinstance(member, property):
        return [each for each in (member.fget, member.fset, member.fdel) if isinstance(each, FunctionType)]
    function = getattr(member, "__func__", None) if isinstance(member, staticmethod | classmethod) else member
    function = function.func if isinstance(function, cached_property) else function
    return [function] if isinstance(function, FunctionType) else []


def _module_of(function: FunctionType) -> str:
    return function.__globals__.get("__name__") or function.__module__ or ""


def _module_of_class(cls: type) -> str:
    """The module of a class, an empty text for one that ``exec`` or ``make_dataclass`` makes in no module."""
    is_there = getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
    return "" if cls.__module__ in ("builtins", "types") and cls.__flags__ & _OF_STATEMENT and not is_there else cls.__module__


def _is_dunder(name: str) -> bool:
    return name[:2] == name[-2:] == "__"


def _bytecode(code: CodeType) -> str:
    version = ".".join(map(str, sys.version_info[:2]))
    consts = [_bytecode(each) if isinstance(each, CodeType) else sort_key(each) for each in code.co_consts]
    return f"Python {version} {code.co_code.hex()} {consts} {code.co_names} {code.co_varnames}"


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
