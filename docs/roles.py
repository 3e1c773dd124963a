"""Docstrings on the site: examples become blocks of code, and roles such as ``:class:`` the names that they
name.
"""

import re
from itertools import groupby
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr):`~?([\w.]+)`")


class Roles(griffe.Extension):
    """Rewrites the docstring of each object when it has been loaded."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        if isinstance(obj, griffe.Object) and obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    """A docstring as Markdown."""
    paragraphs = _ROLE.sub(_linked, docstring).split("\n\n")
    written = []
    for is_example, some in groupby(paragraphs, key=lambda paragraph: paragraph.startswith(">>> ")):
        text = "\n\n".join(some)
        written.append(f"```pycon\n{text}\n```" if is_example else text)
    return "\n\n".join(written)


def _linked(role: re.Match[str]) -> str:
    path, name = role[1], role[1].rpartition(".")[2]
    return f"[{name}][{path}]" if re.fullmatch(r"beam_joins\.[A-Z]\w*", path) else f"`{name}`"
