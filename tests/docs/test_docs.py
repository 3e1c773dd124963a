"""The documentation says what is so: its result tables and examples run, its links lead somewhere, and
nothing public is left out.
"""

import ast
import doctest
import inspect
import re
import shlex
import sys
from collections import defaultdict
from functools import cache
from itertools import pairwise
from types import ModuleType

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

import beam_joins
from beam_joins.pipelines.commands import programs
from tests.docs import key_runs, recorded_runs, stream_runs, table_runs, windowed_runs
from tests.docs.constructors import constructors, readers_and_writers
from tests.docs.notation import Got, place, results
from tests.docs.page import DOCS, FOR_DEVELOPERS, PAGES, README, ROOT, Table, anchors, blocks, links, tables, words

RUNS = {
    run.__name__: run
    for run in (
        table_runs.table_from_changelog,
        table_runs.filter_and_map,
        table_runs.foreign_key_messages,
        table_runs.foreign_key_join,
        table_runs.foreign_keys_join,
        table_runs.one_to_many_join,
        table_runs.many_to_many_join,
        table_runs.table_table_join,
        table_runs.aggregates,
        key_runs.keys,
        windowed_runs.windowed_aggregate,
        windowed_runs.windowed_table_join,
        windowed_runs.windowed_table_to_stream,
        stream_runs.windowed_stream_join,
        stream_runs.windowed_stream_join_by_arrival,
        stream_runs.stream_table_join,
        stream_runs.stream_foreign_key_join,
        recorded_runs.recorded,
        recorded_runs.excluded,
        recorded_runs.set_right,
    )
}
TABLES = [table for page in [*PAGES, *FOR_DEVELOPERS] for table in tables(page)]
EXAMPLES = [page for page in [*PAGES, *FOR_DEVELOPERS] if any(block.language == "python" for block in blocks(page))]
JOIN_PAGES = [
    "table_from_changelog",
    "filter_and_map",
    "foreign_key_join",
    "one_to_many_join",
    "many_to_many_join",
    "table_table_join",
    "windowed_stream_join",
    "stream_table_join",
    "aggregates",
    "windowed_tables",
]

_COLLECTED: dict[str, list[Got]] = defaultdict(list)
"""What came out, by table and mode: the direct runner's worker is this process."""


def collect(got: Got, name: str) -> None:
    _COLLECTED[name].append(got)


@cache
def outcome(table: Table) -> dict[str, list[Got]]:
    """What comes out for each mode."""
    got: dict[str, list[Got]] = {}
    # Beam takes as long to check the types of so small a pipeline as to run it; the examples are run with the
    # check.
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([], pipeline_type_check=False)) as p:
        columns = RUNS[table.name](p, table)
        for mode in table.modes:
            if isinstance(columns[mode], list):
                got[mode] = columns[mode]
            else:
                got[mode] = _COLLECTED[f"{table} {mode}"] = []
                _ = columns[mode] | f"collect {mode}" >> beam.Map(collect, f"{table} {mode}")
    return got


def differences(table: Table, got: dict[str, list[Got]]) -> list[str]:
    """The cells that say something else than what came out."""
    actual = []
    for column, mode in enumerate(table.modes, start=len(table.header) - len(table.modes)):
        message = {place(row[0]): results(row[column]) for row in table.rows}
        timed = any(" @" in text for texts in message.values() for text in texts)
        came: dict[object, list[str]] = defaultdict(list)
        for result in got[mode]:
            came[result.place].append(result.text if timed else result.text.rpartition(" @")[0])
        for at in [*message, *(came.keys() - message.keys())]:
            expected, is_so = message.get(at, []), sorted(came[at])
            if expected != is_so:
                cell = f"row {at}, column {table.header[column]!r}"
                actual.append(
                    f"{table}, {cell}: the page says {'; '.join(expected) or 'nothing'}, but it is {'; '.join(is_so) or 'nothing'}"
                )
    return actual


def _dear(table):
    """The tables of all recorded scenarios take seconds each, and change with those alone."""
    return [pytest.mark.sweep] if str(table.page).startswith("tests/conformance") else []


@pytest.mark.parametrize("table", [pytest.param(table, marks=_dear(table), id=f"{table.page}:{table.line}") for table in TABLES])
def test_every_cell_of_a_result_table_is_what_comes_out(table):
    assert table.name in RUNS, f"{table}: nothing computes this, choose one of {', '.join(RUNS)}"
    assert differences(table, outcome(table)) == []


def test_a_cell_that_is_wrong_is_named_with_its_page_and_row():
    table = next(table for table in TABLES if table.name == "table_table_join")
    (*cells, last), *rest = table.rows
    wrong = table._replace(rows=((*cells, "k: - → Z"), *rest))
    (message,) = differences(wrong, outcome(table))
    assert message.startswith(
        f"{table.page}, line {table.line}: {table.name}, row {cells[0]}, column {table.header[-1]!r}: the page says k: - → Z"
    )
    assert last != "k: - → Z"


class InAnyOrder(doctest.OutputChecker):
    """A collection has no order: the lines that an example prints may come in any."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return sorted(want.splitlines()) == sorted(got.splitlines())


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, one_engine, own_coders, monkeypatch):
    script = ModuleType("__main__")  # classes of an example are found where those of a script are
    monkeypatch.setitem(sys.modules, "__main__", script)
    scope = vars(script)
    message: list[str] = []
    for block in [block for block in blocks(page) if block.language == "python"]:
        example = doctest.DocTestParser().get_doctest(block.text, {}, f"{page.name}, line {block.line}", str(page), block.line)
        assert example.examples, f"{page.name}, line {block.line}: a python block without an example; write it with >>>"
        example.globs = scope
        doctest.DocTestRunner(checker=InAnyOrder()).run(example, out=message.append, clear_globs=False)
    assert "".join(message) == ""


def what_the_readme_shows(language: str) -> tuple[str, str]:
    """Its block in a language that reads the sample data, and the block below it: what comes out."""
    ((example, shown),) = [
        (block.text, below.text)
        for block, below in pairwise(blocks(README))
        if block.language == language and "examples/data" in block.text
    ]
    return example, shown


def test_the_readmes_example_runs_as_pasted_into_a_clone(one_engine, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    example, shown = what_the_readme_shows("python")
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(shown.splitlines())


def test_the_readmes_command_runs_as_pasted_into_a_clone(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    example, shown = what_the_readme_shows("sh")
    program, *arguments = shlex.split(example.replace("\\\n", ""))
    assert (program, programs.main(arguments)) == ("beam-joins", 0)
    assert capsys.readouterr().out == shown


def test_the_options_that_the_readme_gives_to_transforms_are_theirs():
    calls = [
        node
        for block in blocks(README)
        if block.language == "python"
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in beam_joins.__all__
    ]
    assert {call.func.id for call in calls} >= {"ForeignKeyJoin"}
    for call in calls:
        options = inspect.signature(getattr(beam_joins, call.func.id)).parameters
        assert [option.arg for option in call.keywords if option.arg not in options] == []


@pytest.mark.parametrize("page", [README, *PAGES, *FOR_DEVELOPERS], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    dead = []
    for target, anchor in links(page):
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            dead.append(f"{target}#{anchor}" if anchor else target)
    assert dead == []


def test_the_index_names_every_page():
    linked = {target for target, _ in links(DOCS / "README.md")}
    assert {page.name for page in PAGES} - {"README.md", "index.md"} <= linked


def test_the_readme_has_at_most_900_words_and_the_documentation_40_000():
    assert words([README]) <= 900
    assert words(DOCS.rglob("*.md")) <= 40_000


def test_every_public_name_is_explained():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in beam_joins.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_the_constructors_side_by_side_are_those_of_the_transforms():
    assert rows_behind("constructors") == [list(constructor) for constructor in constructors()]
    assert rows_behind("readers and writers") == readers_and_writers()


def rows_behind(mark: str) -> list[list[str]]:
    """The rows of the table behind a comment."""
    lines = (DOCS / "transforms.md").read_text(encoding="utf-8").partition(f"<!-- {mark} -->")[2].strip().partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()[2:]]


@pytest.mark.parametrize("name", JOIN_PAGES)
def test_a_page_has_a_picture_an_executed_table_an_example_limits_and_its_source(name):
    page = DOCS / f"{name}.md"
    languages = {block.language for block in blocks(page)}
    drawn = "\n![" in page.read_text(encoding="utf-8")
    assert drawn or "text" in languages, f"{name}: no picture"
    assert "python" in languages, f"{name}: no example"
    assert tables(page)
    assert {"limits", "source"} <= anchors(page)
