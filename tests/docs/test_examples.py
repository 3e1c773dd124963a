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
    message = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("It prints:\n\n")[2]
    runpy.run_path(str(path))
    printed, _ = capsys.readouterr()
    assert sorted(printed.splitlines()) == sorted(textwrap.dedent(message).splitlines()) != []
