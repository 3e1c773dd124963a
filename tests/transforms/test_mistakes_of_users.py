"""Mistakes in a pipeline are told in one sentence while it is built, before there is a run."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import (
    AggregateTable,
    ChangeBatch,
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    MapTable,
    StateRefused,
    TableFromChangelog,
    TableTableJoin,
    WindowedTableToStream,
    versioned,
    with_key,
)

ZERO = pa.array([0])
ONE: Callable[..., Any] = lambda value: value  # noqa: E731
TWO: Callable[..., Any] = lambda one, other: one  # noqa: E731
THREE: Callable[..., Any] = lambda one, other, third: one  # noqa: E731


def any_number(*values: Any) -> Any:
    return values


class Called:
    def __call__(self, key: Any, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: FilterTable(ONE), r"predicate=<lambda>\(value\) is called with 2 arguments, the key and the value"),
        (lambda: FilterTable(versioned("1")(ONE)), r"predicate=<lambda>\(value\) is called with 2 arguments"),
        (lambda: FilterTable(partial(TWO, 1)), r"predicate=partial\(other\) is called with 2 arguments"),
        (lambda: MapTable(THREE), r"fn=<lambda>\(one, other, third\) is called with 2 arguments, the key and the value"),
        (lambda: CountTable(group_by=ONE), r"group_by=<lambda>\(value\) is called with 2 arguments, the key and the value"),
        (lambda: ForeignKeyJoin(TWO, foreign_key=ONE), r"foreign_key=<lambda>\(value\) is called with 2 arguments"),
        (
            lambda: WindowedTableToStream(TWO),
            r"fn=<lambda>\(one, other\) is called with 3 arguments, the key, the window and the value",
        ),
        (
            lambda: AggregateTable(group_by=TWO, initial=0, add=ONE, subtract=TWO),
            r"add=<lambda>\(value\) is called with 2 arguments, the aggregate and the value",
        ),
    ],
)
def test_a_function_of_another_number_of_arguments_is_told_at_construction(made: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        made()


def test_functions_that_can_be_called_with_their_arguments_are_taken() -> None:
    for function in (TWO, any_number, Called(), max, partial(THREE, 1), versioned("1")(TWO), lambda one, other, third=3: one):
        FilterTable(function)
    WindowedTableToStream(THREE)
    MapTable(dict)


@pytest.mark.parametrize(
    ("how", "joiner", "says"),
    [
        ("inner", ONE, "2 arguments, the left and the right value"),
        ("inner", THREE, "2 arguments, the left and the right value"),
        ("left", with_key(TWO), "3 arguments, the key, the left and the right value"),
        ("semi", TWO, "1 argument, the left value"),
    ],
)
def test_a_joiner_of_another_number_of_arguments_is_told_when_it_is_applied(how: Any, joiner: Any, says: str) -> None:
    pipeline = beam.Pipeline()
    tables = tuple(
        pipeline | f"rows {side}" >> beam.Create([{"id": 1, "lsn": 1}]) | side >> TableFromChangelog(key="id", sequence_by="lsn")
        for side in ("left", "right")
    )
    with pytest.raises(ValueError, match=rf"joiner=<lambda>\(.*\) is called with {says}$"):
        _ = tables | TableTableJoin(joiner, how=how)


def test_a_batch_of_a_table_that_is_taken_for_a_row_says_what_gives_rows() -> None:
    (batch,) = [ChangeBatch(key=pa.array([1]), new=pa.array([1]), before=pa.array([None], pa.int64()), timestamp=ZERO, position=ZERO)]
    for taken in (lambda: batch.amount, lambda: batch[0]):  # type: ignore[attr-defined, index]
        with pytest.raises((AttributeError, TypeError), match=r"a table has batches of changes; TableToRows\(\) gives its rows"):
            taken()
    assert pickle.loads(pickle.dumps(batch)).key.equals(batch.key)
    assert copy.copy(batch).new is batch.new
    assert not hasattr(batch, "amount")


def table(*options: str) -> Any:
    pipeline = beam.Pipeline(options=PipelineOptions([*options]))
    return pipeline | beam.Create([{"id": 1, "lsn": 1}]) | TableFromChangelog(key="id", sequence_by="lsn")


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--beam_joins_sate=s", "there is no option --beam_joins_sate: do you mean --beam_joins_state?"),
        ("--beam_joins_q=1", "there is no option --beam_joins_q: choose among --beam_joins_partitions, "),
    ],
)
def test_an_option_of_the_library_that_is_none_ends_the_run(tmp_path: Path, option: str, says: str) -> None:
    with pytest.raises(ValueError, match="there is no option") as told:
        table(option, f"--temp_location={tmp_path}", "--unknown=1")
    assert str(told.value).startswith(says)


def test_a_state_that_can_be_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, why in ((tmp_path / "file", "File exists"), (tmp_path / "file/below", "Not a directory")):
        with pytest.raises(StateRefused, match=rf"^{path} cannot be the folder of a state \({why}\): name another one$"):
            table(f"--beam_joins_state={path}")


@pytest.mark.process
@pytest.mark.gate
def test_all_readers_and_writers_are_imported_where_packages_of_extras_are_missing() -> None:
    program = """
import sys
sys.modules |= dict.fromkeys(("deltalake", "psycopg", "duckdb", "confluent_kafka"))
from beam_joins.io import *
assert ReadChangelog.__module__ == "beam_joins.pipelines.systems.files.read_changelog"
try:
    ReadDelta("d", key="id")
except ImportError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Delta tables need deltalake: pip install ")
