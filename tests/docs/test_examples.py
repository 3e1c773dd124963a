"""Each example prints what it says that it prints."""

import ast
import runpy
import textwrap

import pytest

from tests.docs.page import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.usefixtures("one_engine")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, capsys):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    order, _, message = docstring.partition("\nIt prints, ")[2].partition(":\n\n")
    runpy.run_path(str(path))
    printed, _ = capsys.readouterr()
    assert "order" in order or "before or after" in order
    assert sorted(printed.splitlines()) == sorted(textwrap.dedent(message).splitlines()) != []
