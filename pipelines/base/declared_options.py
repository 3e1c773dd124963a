"""Reads the options of a public class, with their docs, from its source: the command line knows them without importing
Beam.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

_BULLET: Final = re.compile(r"\* (?P<names>``\w+``(?:,\s+``\w+``)*): (?P<text>.*)", re.DOTALL)


class DeclaredOption(NamedTuple):
    """A parameter: its annotation and its default as written, the values that a ``Literal`` allows, and the text of its
    bullet. A parameter without a default has the empty text there.
    """

    name: str
    annotation: str
    default: str
    choices: tuple[str, ...]
    text: str


def declared_options(module: str, cls: str) -> dict[str, DeclaredOption]:
    """The parameters of a class by their names, in order; the text of one without a bullet in the docstring is empty.

    >>> options = declared_options("beam_joins.pipelines.systems.files.read_change_events", "ReadChangeEvents")
    >>> options["format"].choices
    ('debezium', 'wal2json', 'maxwell')
    >>> options["table"].text
    'the table whose rows count, by its full name or the last part of it; by default all rows.'
    """
    tree = _tree(module)
    declared = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls)
    init = next(node for node in declared.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    texts, arguments = bullets(ast.get_docstring(declared) or ""), init.args
    defaults = [*[None] * len(arguments.args), *arguments.defaults][-len(arguments.args) :]
    return {
        each.arg: DeclaredOption(
            each.arg,
            ast.unparse(each.annotation),
            "" if default is None else ast.unparse(default),
            _choices(module, each.annotation),
            texts.get(each.arg, ""),
        )
        for each, default in zip((*arguments.args, *arguments.kwonlyargs), (*defaults, *arguments.kw_defaults), strict=True)
        if each.annotation is not None
    }


def bullets(docstring: str) -> dict[str, str]:
    r"""The texts of the bullets of a docstring, ``* ``name``: text`` or ``* ``a``, ``b``: text``, by their names, each in
    one line.

    >>> bullets("Reads.\n\n* ``path``: a path\n  or a glob.\n* ``key``, ``table``: of both.\n\nRaises.")
    {'path': 'a path or a glob.', 'key': 'of both.', 'table': 'of both.'}
    """
    items = re.findall(r"^(\* .*(?:\n  .*)*)", docstring, re.MULTILINE)
    matches = [match for item in items if (match := _BULLET.match(item))]
    return {name: " ".join(match["text"].split()) for match in matches for name in re.findall(r"\w+", match["names"])}


@cache
def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _choices(module: str, annotation: ast.expr) -> tuple[str, ...]:
    """The texts that a ``Literal`` allows, also one that has a name in this module or in the one that it is imported from."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        values: Any = ast.literal_eval(annotation.slice)
        return values if isinstance(values, tuple) else (values,)
    if not isinstance(annotation, ast.Name):
        return ()
    tree = _tree(module)
    for name, value in _assigned(tree):
        if name == annotation.id:
            return _choices(module, value)
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    origin = next((node.module for node in imports if any(alias.name == annotation.id for alias in node.names)), None)
    return _choices(origin, annotation) if origin and origin.startswith("beam_joins.") else ()


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
