"""Finds the source of functions and classes, and says what it does: without comments, formatting, docstrings,
line numbers and type hints, and in the same words in each version of Python.
"""

import ast
import linecache
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_IGNORED = {"ctx", "kind", "type_comment", "returns"}
"""Fields of nodes that repeat their place in the tree, or have no effect."""
_MODIFYING = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}


class Syntax:
    """The normalised ``text`` of source, and the names in it.

    ``names`` are all names that it uses, ``paths`` their attributes, and ``modified`` the paths of values
    that it assigns or changes; of these ``called`` are those that it changes by a method alone, such as ``seen.add(n)``.
    ``quoted`` are the names and the paths that it gives as text, to ``globals``, ``getattr``, ``eval`` or ``exec``, and
    ``imports`` the modules that it imports when it runs, each with the name that it takes of it, or an empty one.

    >>> syntax = Syntax(ast.parse("calls[n] = rates.tax  # a comment").body)
    >>> syntax.paths, syntax.modified
    ({('rates', 'tax')}, {('calls',)})
    """

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self.names = set[str]()
        self.paths = set[tuple[str, ...]]()
        self.modified = set[tuple[str, ...]]()
        self.quoted = set[tuple[str, ...]]()
        self.imports = set[tuple[str, str]]()
        self._assigned = set[tuple[str, ...]]()
        self.text = ";".join(map(self._text, nodes))

    @property
    def called(self) -> set[tuple[str, ...]]:
        """The paths of values that it changes by a method alone."""
        return self.modified - self._assigned

    def _text(self, node: Any) -> str:
        if isinstance(node, list):
            return f"[{','.join(self._text(each) for each in node if not _has_no_effect(each))}]"
        if not isinstance(node, ast.AST):
            return ascii(node)
        self._note(node)
        fields = ["arg"] if isinstance(node, ast.arg) else [name for name in node._fields if name not in _IGNORED]
        parts = {name: getattr(node, name, None) for name in fields}
        if isinstance(node, ast.JoinedStr):
            parts["values"] = list(_merged(node.values))
        if isinstance(node, _Function) and node.decorator_list:  # they may read the type hints
            hints = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)]
            parts["hints"] = [*hints, node.returns]
        # versions of Python differ in fields that are empty
        texts = [f"{name}={self._text(part)}" for name, part in parts.items() if part is not None and part != []]
        return f"{type(node).__name__}({','.join(texts)})"

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Name():
                self.names.add(node.id)
            case ast.Import():
                self.imports.update((each.name, "") for each in node.names)
            case ast.ImportFrom():
                self.imports.update(("." * node.level + (node.module or ""), each.name) for each in node.names)
            case ast.Global() | ast.Nonlocal():
                self._assign((name,) for name in node.names)
            case ast.Call(func=ast.Attribute(value=changed, attr=method)) if method in _MODIFYING:
                self.modified.add(_path(changed))
            case ast.Attribute(ctx=ast.Load()):
                self.paths.add(_path(node))
            case ast.Attribute() | ast.Subscript(ctx=ast.Store() | ast.Del()):
                self._assign([_path(node)])

            case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")), slice=ast.Constant(value=str(name))):
                self.quoted.add((name,))
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str(name)), *_]):
                self.quoted.add((*_path(of), name))
            case ast.Call(func=ast.Name(id="eval" | "exec"), args=[ast.Constant(value=str(code)), *_]):
                with suppress(SyntaxError, ValueError):  # which the call raises
                    self.quoted |= {(each.id,) for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)}

    def _assign(self, paths: Iterable[tuple[str, ...]]) -> None:
        assigned = set(paths)
        self.modified |= assigned
        self._assigned |= assigned


def _has_no_effect(node: Any) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _merged(values: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string; versions of Python differ in how they split the text between expressions."""
    text = ""
    for value in values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        yield value
    if text:
        yield ast.Constant(text)


def _path(node: ast.AST) -> tuple[str, ...]:
    """The name at which an expression such as ``rates.tax[0].of`` begins, and its attributes up to an index;
    nothing if it begins otherwise.
    """
    attributes: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        attributes = [node.attr, *attributes] if isinstance(node, ast.Attribute) else []
        node = node.value
    return (node.id, *attributes) if isinstance(node, ast.Name) else ()


def names_of_code(code: CodeType) -> set[str]:
    """The global names and attributes in a code object, and in those within it.

    >>> sorted(names_of_code((lambda row: [len(each) for each in row.parts]).__code__))
    ['len', 'parts']
    """
    inner = (names_of_code(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def as_written(name: str) -> str:
    """The name in the source of a class of one in its code, which begins with the class where it begins with two underscores.

    >>> as_written("_Rate__tax"), as_written("_tax")
    ('__tax', '_tax')
    """
    of, underscores, rest = name.partition("__")
    return f"__{rest}" if of[:1] == "_" and underscores else name


def syntax_of_function(function: FunctionType) -> Syntax | None:
    """The syntax of a function, ``None`` without source; that of all lambdas of a line where they cannot be
    told apart.
    """
    code = function.__code__
    source = _source(code.co_filename, function.__globals__)
    return source.function(code) if source else None


def syntax_of_file(file: str) -> Syntax | None:
    """The syntax of a whole module, ``None`` without source."""
    source = _source(file, {})
    return source.whole if source else None


def syntax_of_class(cls: type) -> Syntax | None:
    """The syntax of a class, ``None`` without source; its ``names`` are the global ones."""
    module = sys.modules.get(cls.__module__)
    # a class of a notebook is in the cell of its methods
    files = {each.__code__.co_filename for each in vars(cls).values() if isinstance(each, FunctionType)}
    for file in [*sorted(files), getattr(module, "__file__", None) or ""]:
        source = _source(file, vars(module) if module else {})
        if source and cls.__name__ in source.classes:
            return source.of_class(cls.__name__)
    return None


class _Source:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.classes = defaultdict[str, list[ast.AST]](list)
        self._functions = defaultdict[tuple[str, int], list[Any]](list)
        self._syntaxes: dict[tuple[ast.AST, ...], Syntax] = {}
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.Lambda):
                self._functions["<lambda>", node.lineno].append(node)
            elif isinstance(node, _Function):
                self._functions[node.name, min(each.lineno for each in (node, *node.decorator_list))].append(node)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name].append(node)

    @property
    def whole(self) -> Syntax:
        """The syntax of all of it."""
        return Syntax([ast.parse("".join(self.lines))])

    def function(self, code: CodeType) -> Syntax | None:
        nodes = self._functions.get((code.co_name, code.co_firstlineno), [])
        if len(nodes) > 1:
            nodes = sorted(_picked(nodes, code), key=_place_of)
        return self._syntax(nodes) if nodes else None

    def of_class(self, name: str) -> Syntax:
        syntax = self._syntax(nodes := self.classes[name])
        try:
            code = compile(ast.Module(nodes, []), "", "exec", dont_inherit=True)  # type: ignore[arg-type]  # classes are statements
            names = names_of_code(code)
            syntax.names &= names | {as_written(name) for name in names}
        except SyntaxError:  # it names a variable of the function that it is in: then attributes are taken for names
            pass
        return syntax

    def _syntax(self, nodes: list[ast.AST]) -> Syntax:
        if (syntax := self._syntaxes.get(tuple(nodes))) is None:
            syntax = self._syntaxes[tuple(nodes)] = Syntax(nodes)
        return syntax


def _place_of(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _picked(nodes: list[Any], code: CodeType) -> list[Any]:
    """Of functions that begin on one line those that have the most of the code's instructions in their
    bodies, of these the innermost; all where instructions have no places (``python -X no_debug_ranges``).
    """
    spans: set[Any] = {each for each in code.co_positions() if None not in each}
    bodies = [node.body if isinstance(node.body, list) else [node.body] for node in nodes]
    within = [
        sum(_place_of(body[0]) <= span[::2] < (body[-1].end_lineno, body[-1].end_col_offset) for span in spans) for body in bodies
    ]
    most = [node for node, number in zip(nodes, within, strict=True) if number == max(within)]
    return [max(most, key=_place_of)] if max(within) else nodes


_sources: dict[str, _Source | None] = {}
_lines: dict[str, list[str]] = {}
"""The files that were parsed, and their lines then."""


def _source(file: str, variables: dict[str, Any]) -> _Source | None:
    linecache.checkcache(file)
    lines = linecache.getlines(file, variables)
    if not lines:  # the source of an example is there only while it runs
        return _sources.get(file)
    if _lines.get(file) != lines:
        try:
            with warnings.catch_warnings(action="ignore"):
                _sources[file] = _Source(lines)
        except Exception:  # it is no Python, or not that of this version
            _sources[file] = None
        _lines[file] = lines
    return _sources[file]
