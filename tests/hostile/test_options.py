"""Options of public transforms, readers and writers with values of wrong types and ranges: each is a
ValueError that names the option, or is of its form.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import FixedWindows

import beam_joins
from beam_joins import views
from beam_joins.io import (
    ReadChangeEvents,
    ReadChangelog,
    ReadDelta,
    ReadGrowingChangelog,
    ReadGrowingFiles,
    ReadKafka,
    ReadKafkaChangeEvents,
    ReadParquet,
    ReadPostgres,
    WriteBigQuery,
    WriteChangelog,
    WriteDelta,
    WriteDuckLake,
    WriteKafka,
    WriteParquet,
    WritePostgres,
)

SCHEMA = pa.schema({"id": pa.int64()})
QUERY = views.table("t", SCHEMA, key="id")
VALUES: dict[str, list[Any]] = {
    "none": [None],
    "flag": [True],
    "seconds": [1.5],
    "empty": [""],
    "text": ["x"],
    "nothing": [[], ()],
    "settings": [{}, {"a": 1}],
    "function": [int],
    "schema": [SCHEMA],
    "negative": [-1],
    "wrong": [2**63, float("nan"), b"x", [1], object()],
}
"""Values by what they can be taken for."""
NAME, NAMES = "none text", "none text function"
DATED = {"out_of_orderness": (0, "seconds"), "idle_after": (None, "none seconds"), "follow": (True, "flag")}
KAFKA = {
    **{
        "topics": ("t", "text"),
        "bootstrap_servers": ("h:1", "text"),
        "config": (None, "none settings"),
        "schema_registry": (None, "none"),
    },
    **{"start": ("earliest", ""), **DATED},
}
OPERATIONS = ("apply_as_deletes", "apply_as_upserts", "apply_as_truncates", "ignored")
PLAIN_ROWS: dict[str, tuple[Any, str]] = {
    **{"key": ("id", "text"), "timestamp_by": ("at", "none text"), "timestamp_unit": ("us", ""), "sequence_by": ("lsn", "none text")},
    **{"max_ahead": (None, "none seconds")},
    **dict.fromkeys(OPERATIONS, (None, "none")),
    **{"apply_as_deletes": ("gone", "none text"), "except_columns": ((), "text nothing"), "emit": ("updates", "")},
    "schema": (None, "none schema"),
}
EVENTS: dict[str, tuple[Any, str]] = {
    **{"format": ("debezium", ""), "table": ("", "empty text"), "unavailable_value": ((), "text nothing")},
    **{"emit": ("updates", ""), "without_earlier": ("fail", "")},
}
FORMS: dict[str, dict[str, tuple[Any, str]]] = {
    "AggregateTable": {
        **{"group_by": ("g", "text function"), "initial": (0, "none flag seconds empty text function schema")},
        **{"add": (max, "function"), "subtract": (max, "function")},
        **{"aggregates": (None, "none"), "empty_groups": ("drop", ""), "null_groups": ("drop", "")},
    },
    "CountTable": {"group_by": ("g", "text function"), "empty_groups": ("keep", ""), "null_groups": ("drop", "")},
    "SumTable": {
        **{"group_by": ("g", "text function"), "of": ("n", "text function")},
        **{"empty_groups": ("keep", ""), "null_groups": ("drop", "")},
    },
    "DistinctTable": {"columns": (None, "none text")},
    "UnionTables": {"tables": (("a", "b"), ""), "keys": ("tagged", "")},
    "View": {"query": (QUERY, ""), "key": (None, "none")},
    "ReduceTable": {"group_by": ("g", "text function"), "add": (max, "function"), "subtract": (max, "function")},
    "FilterTable": {"predicate": (max, "function"), "negate": (False, "flag")},
    "MapTable": {"fn": (max, "function"), "schema": (None, "none schema"), "key": (None, "none text function")},
    "TableTableJoin": {
        **{"joiner": (max, "function"), "how": ("inner", ""), "tables": (("a", "b"), ""), "schema": (None, "none schema")},
    },
    "ForeignKeyJoin": {
        **{"joiner": (max, "function"), "foreign_key": ("x", "text function"), "how": ("inner", ""), "schema": (None, "none schema")},
        **{"broadcast": (None, "none flag"), "foreign_keys": (None, "none")},
    },
    "OneToManyJoin": {
        **{"joiner": (max, "function"), "foreign_key": ("x", "text function"), "how": ("inner", ""), "schema": (None, "none schema")},
        **{"key_mapper": (str, "function"), "key_inverse": (str, "function")},
    },
    "ManyToManyJoin": {
        **{"joiner": (max, "function"), "how": ("inner", ""), "schema": (None, "none schema"), "condition": (max, "none function")},
        **{"on": (None, "none"), "left_on": ("x", "text function"), "right_on": ("x", "text function")},
    },
    "StreamForeignKeyJoin": {
        **{"joiner": (max, "function"), "foreign_key": ("x", "text function"), "how": ("inner", "")},
        **{"key": (None, NAMES), "timestamp_by": (None, NAMES), "sequence_by": ("s", NAMES)},
        **{"stream_schema": (None, "none schema"), "schema": (None, "none schema")},
    },
    "StreamTableJoin": {
        **{"joiner": (max, "function"), "how": ("inner", ""), "sequence_by": ("s", NAMES), "window_of": (None, "none function")},
        **{
            "key": (None, NAMES),
            "timestamp_by": (None, NAMES),
            "stream_schema": (None, "none schema"),
            "schema": (None, "none schema"),
        },
    },
    "TableFromChangelog": {
        **{"key": ("id", NAMES), "timestamp_by": ("t", NAMES), "sequence_by": ("s", NAMES), "tie_break_by": ("u", NAMES)},
        **{
            "one_log_by": ("l", NAME),
            "apply_as_deletes": (bool, NAMES),
            "apply_as_truncates": (bool, "none function"),
            "apply_as_inserts": (bool, "none function"),
        },
        **{"except_columns": ((), "nothing"), "emit": ("updates", ""), "schema": (None, "none schema")},
        **{"unchanged_by": ("c", NAMES), "completed_by": (None, "none function"), "without_earlier": ("fail", "")},
    },
    "WindowedAggregate": {
        **{
            "window_fn": (FixedWindows(5), ""),
            "initial": (0, "none flag seconds empty text function schema"),
            "add": (max, "function"),
        },
        **{"grace": (1, "none seconds"), "key": ("k", NAMES), "timestamp_by": ("t", NAMES), "sequence_by": ("s", NAMES)},
        "stream_schema": (SCHEMA, "none schema"),
    },
    "WindowedStreamJoin": {
        **{
            "joiner": (max, "function"),
            "how": ("inner", ""),
            "before": (1, "seconds negative"),
            "after": (1, "seconds negative"),
            "grace": (1, "seconds"),
        },
        **{"key": ("k", NAMES), "timestamp_by": ("t", NAMES), "sequence_by": ("s", NAMES)},
        "stream_schemas": ((SCHEMA, SCHEMA), "none"),
        "schema": (None, "none schema"),
    },
    "WindowedTableJoin": {
        **{"joiner": (max, "function"), "how": ("inner", ""), "shift": (None, "none function"), "window_of": (None, "none function")},
        "schema": (None, "none schema"),
    },
    "WindowedTableToStream": {"fn": (max, "function")},
    "LatestTable": {},
    "TableToChanges": {},
    "TableToRows": {"records": ("rows", ""), "key": (None, "none text")},
    "TableToStream": {},
    "ReadKafka": {**KAFKA, "value": ("bytes", ""), "schema": (None, "none"), "timestamp_by": (None, "none function")},
    "ReadGrowingFiles": {**DATED, "path": ("a.jsonl", ""), "timestamp_by": ("at", "text function"), "schema": (None, "none")},
    "ReadChangelog": {
        **PLAIN_ROWS,
        **{
            "path": ("d.jsonl", "text"),
            "on_bad_record": ("fail", ""),
            **dict.fromkeys(("delimiter", "encoding", "column_formats"), (None, "none")),
        },
    },
    "ReadGrowingChangelog": {
        **PLAIN_ROWS,
        "timestamp_by": ("at", "text"),
        "path": ("d.jsonl", ""),
        **{name: DATED[name] for name in ("out_of_orderness", "idle_after")},
    },
    "ReadChangeEvents": {
        **EVENTS,
        **{"path": ("d.jsonl", "text"), "key": ("id", "none text"), "schema": (None, "none schema"), "on_bad_record": ("fail", "")},
    },
    "ReadKafkaChangeEvents": {**EVENTS, **KAFKA, "key": ("id", "text"), "schema": (None, "none schema")},
    "ReadParquet": {"path": ("p.parquet", "text"), "columns": (None, "none nothing")},
    "ReadDelta": {
        **{
            "path": ("d", "text"),
            "key": ("id", "text"),
            "schema": ("declared", "none schema"),
            "sequence_by": ("_commit_version", ""),
        },
        **{"storage_options": (None, "none settings"), "emit": ("updates", "")},
    },
    "ReadPostgres": {
        **{"conninfo": ("dbname=x", "empty"), "slot": ("s", "text"), "publication": (None, "none text"), "table": ("t", "text")},
        **{"tables": ((), "nothing"), "key": (None, "none text"), "schema": ("declared", "none schema"), "emit": ("updates", "")},
        "without_earlier": ("fail", ""),
    },
    "WriteChangelog": {
        **{"path": ("w.jsonl", ""), "records": ("upserts", ""), "key": ("id", NAME), "table": ("", "empty text")},
    },
    "WriteDelta": {
        **{"path": ("d", "text"), "key": ("id", NAME), "application": (None, NAME), "storage_options": (None, "none settings")},
    },
    "WriteBigQuery": {"table": ("shop.sales.t", ""), "key": ("id", NAME), "application": (None, NAME)},
    "WriteDuckLake": {
        **{"catalog": ("l", "text"), "table": ("t", "text"), "key": ("id", NAME), "application": (None, NAME)},
        "data_path": (None, NAME),
    },
    "WriteKafka": {
        **{"topic": ("t", "text"), "bootstrap_servers": ("b:1", "text"), "records": ("upserts", ""), "key": ("id", NAME)},
        **{"key_format": (None, "none"), "value": ("json", ""), "schema_registry": (None, "none"), "table": ("", "empty text")},
        **{"partitions": (None, "none"), "application": (None, NAME), "config": (None, "none settings")},
    },
    "WriteParquet": {"path": ("p", "text"), "schema": (None, "none schema"), "compression": ("snappy", "")},
    "WritePostgres": {
        **{"conninfo": ("dbname=x", "empty"), "table": ("t", "text"), "key": ("id", "text"), "schema": (SCHEMA, "none schema")},
        **{"position": ("p", "text"), "deleted": ("d", "text"), "create": (False, "flag"), "existing": ("refuse", "")},
    },
}
"""Of each option a value of its form, and what else is one."""
READERS_AND_WRITERS = (
    *(ReadChangelog, ReadGrowingChangelog, ReadChangeEvents, ReadKafkaChangeEvents),
    *(ReadKafka, ReadGrowingFiles, ReadParquet, ReadDelta, ReadPostgres),
    *(WriteBigQuery, WriteChangelog, WriteDelta, WriteDuckLake, WriteKafka, WriteParquet, WritePostgres),
)
TRANSFORMS: dict[str, Callable[..., Any]] = {
    transform.__name__: transform
    for transform in [*(getattr(beam_joins, name) for name in beam_joins.__all__), *READERS_AND_WRITERS]
    if inspect.isclass(transform) and issubclass(transform, beam.PTransform)
}


def test_every_option_of_every_public_transform_has_a_form():
    signatures = {
        name: [
            option
            for option, each in inspect.signature(transform).parameters.items()
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        for name, transform in TRANSFORMS.items()
    }
    assert {name: sorted(options) for name, options in signatures.items()} == {name: sorted(forms) for name, forms in FORMS.items()}


@pytest.mark.parametrize(("name", "forms"), FORMS.items())
def test_an_option_of_another_form_is_a_value_error_that_names_it(
    name: str, forms: dict[str, tuple[Any, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").touch()
    pq.write_table(pa.table({"id": [1]}), "p.parquet")
    transform, usual = TRANSFORMS[name], {option: value for option, (value, _) in forms.items()}
    transform(**usual)
    for option, (_, takes) in forms.items():
        for what, values in VALUES.items():
            for value in values:
                try:
                    transform(**{**usual, option: value})
                except ValueError as error:
                    sentence = str(error)
                    about_the_file = option == "path" and "there is no file" in sentence
                    assert about_the_file or what not in takes.split(), (option, value, sentence)
                    assert about_the_file or (option in sentence and "\n" not in sentence), (option, value, sentence)
                except Exception as error:
                    pytest.fail(f"{name}({option}={value!r}) raised {type(error).__name__}: {error}")
                else:
                    assert what in takes.split() or (option == "initial" and what != "settings"), (option, value, "was taken")
