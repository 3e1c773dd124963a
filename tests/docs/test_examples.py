"""Each example prints what it says that it prints, and each cell of the notebook what stands below it."""

import ast
import json
import re
import runpy
import textwrap

import pytest

from beam_joins.pipelines.commands import programs
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


NOTEBOOK = ROOT / "examples" / "orders.ipynb"
SECONDS = re.compile(r"written in [\d.]+ s")


@pytest.fixture
def ran(tmp_path, monkeypatch, one_engine, capsys):
    """The code of each cell, what stands below it, and what it has printed."""
    monkeypatch.chdir(tmp_path)
    scope, cells = {"__name__": "__main__"}, []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            exec(compile(code, cell["id"], "exec"), scope)
            cells.append((code, "".join(line for output in cell["outputs"] for line in output["text"]), capsys.readouterr().out))
    return cells


def test_the_cells_of_the_notebook_print_what_stands_below_them_and_rows_as_the_command_has_them(ran, tmp_path, capsys):
    for code, shown, printed in ran:
        if "ImportError" in code:  # as the machine has it
            assert (shown, printed != "") == ("", True)
        else:
            assert SECONDS.sub("", printed) == SECONDS.sub("", shown)
    inputs = [
        "--left=sample-data/orders.jsonl",
        "--left-key=order_id",
        "--right=sample-data/customers.jsonl",
        "--right-key=customer_id",
    ]
    select = "left.order_id, left.amount, left.status, right.name, right.city"
    assert programs.main(["join", *inputs, "--foreign-key=customer_id", f"--select={select}", "--latest=-"]) == 0
    rows = sorted((list(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()), key=lambda row: row[0])
    (latest,) = [shown.splitlines() for code, shown, _ in ran if "joined/latest" in code and "read_table" in code]
    assert latest[0].startswith(f"{len(rows)} rows of ")
    assert [line.rpartition(" ")[0] for line in latest[1:]] == [" ".join(map(str, row)) for row in rows[:5]]


def test_the_notebook_has_no_paths_of_a_machine_and_no_counts_of_runs():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert re.findall(r"/(?:home|root|tmp|work|Users)/", text) == []
    assert {cell.get("execution_count") for cell in json.loads(text)["cells"]} == {None}
