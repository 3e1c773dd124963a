"""Functions of users that give what their option does not take: one sentence that names the option and the
value.
"""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_joins import (
    CountTable,
    FilterTable,
    ForeignKeyJoin,
    ManyToManyJoin,
    MapTable,
    OneToManyJoin,
    StreamTableJoin,
    SumTable,
    TableFromChangelog,
    WindowedAggregate,
    WindowedStreamJoin,
    WindowedTableJoin,
    WindowedTableToStream,
)

Built = Callable[[beam.Pipeline, Callable[..., Any]], Any]
SCHEMA = pa.schema({"a": pa.int64()})
PAIR = "CombinedKey(foreign_key=1, primary_key=1)"


def table(p: beam.Pipeline, name: str = "table", **options: Any) -> Any:
    rows = p | f"{name} rows" >> beam.Create([{"id": 1, "f": 1, "lsn": 1, "at": 1}])
    return rows | name >> TableFromChangelog(**{**{"key": "id", "sequence_by": "lsn", "timestamp_by": "at"}, **options})


def stream(p: beam.Pipeline, name: str = "stream") -> Any:
    return p | name >> beam.Create([TimestampedValue((1, 1), 1)])


def counts(p: beam.Pipeline, name: str = "counts") -> Any:
    return stream(p, f"{name} of") | name >> WindowedAggregate(FixedWindows(5), initial=0, add=lambda count, value: count + 1)


def tables(p: beam.Pipeline) -> Any:
    return table(p, "left"), table(p, "right")


def first(left: Any, right: Any) -> Any:
    return left


AT_ONCE = {"before": 1, "after": 1, "grace": 1}
FUNCTIONS: dict[str, Built] = {
    "timestamp_by": lambda p, f: table(p, timestamp_by=f),
    "sequence_by": lambda p, f: table(p, sequence_by=f),
    "sequence_by of a stream": lambda p, f: (stream(p), stream(p, "b")) | WindowedStreamJoin(first, sequence_by=f, **AT_ONCE),
    "tie_break_by": lambda p, f: table(p, tie_break_by=f),
    "key": lambda p, f: table(p, key=f),
    "apply_as_deletes": lambda p, f: table(p, apply_as_deletes=f),
    "apply_as_truncates": lambda p, f: table(p, apply_as_truncates=f),
    "apply_as_inserts": lambda p, f: table(p, apply_as_inserts=f),
    "foreign_key": lambda p, f: tables(p) | ForeignKeyJoin(first, foreign_key=f),
    "foreign_keys": lambda p, f: tables(p) | ForeignKeyJoin(first, foreign_keys=f),
    "joiner": lambda p, f: tables(p) | ForeignKeyJoin(f, foreign_key="f", schema=SCHEMA),
    "key_mapper": lambda p, f: tables(p) | OneToManyJoin(first, foreign_key="f", key_mapper=f, key_inverse=f),
    "condition": lambda p, f: tables(p) | ManyToManyJoin(first, on="f", condition=f),
    "left_on": lambda p, f: tables(p) | ManyToManyJoin(first, left_on=f, right_on="f"),
    "predicate": lambda p, f: table(p) | FilterTable(f),
    "fn": lambda p, f: table(p) | MapTable(f, schema=SCHEMA),
    "fn of a stream": lambda p, f: counts(p) | WindowedTableToStream(f),
    "group_by": lambda p, f: table(p) | CountTable(group_by=f),
    "of": lambda p, f: table(p) | SumTable(group_by="f", of=f),
    "window_of": lambda p, f: (stream(p), counts(p)) | StreamTableJoin(first, window_of=f),
    "shift": lambda p, f: (counts(p), counts(p, "b")) | WindowedTableJoin(first, shift=f),
}
NO_NUMBER = "a position is a whole number, so turn it into an int"
NO_WINDOW = "give a Window(start, end) in microseconds (window_of=, shift=)"


@pytest.mark.parametrize(
    ("function", "inputs", "sentence"),
    [
        ("timestamp_by", "noon", "timestamp_by gave 'noon' of type str: give microseconds since the epoch as an int"),
        ("timestamp_by", 2**63, "timestamp_by gave 9223372036854775808, which does not fit in 64 bits"),
        ("sequence_by", True, f"sequence_by gave True of type bool: {NO_NUMBER}"),
        ("sequence_by", 2**63, "sequence_by gave 9223372036854775808, which does not fit in 64 bits"),
        ("sequence_by of a stream", "7", f"sequence_by gave '7' of type str: {NO_NUMBER}"),
        ("tie_break_by", 1.5, f"tie_break_by gave 1.5 of type float: {NO_NUMBER}"),
        ("key", object(), "the key <object object at "),
        ("apply_as_deletes", "false", "apply_as_deletes gave 'false' of type str: give True or False"),
        ("apply_as_truncates", b"f", "apply_as_truncates gave b'f' of type bytes: give True or False"),
        ("foreign_key", object(), "the foreign key <object object at "),
        ("foreign_keys", 7, "foreign_keys gave 7, one key and not a list: give [7], or use foreign_key"),
        ("joiner", 7, "joiner gave 7 (int) for a column of type struct<a: int64>"),
        ("key_mapper", 7, f"key_mapper makes 7 of {PAIR}, of which key_inverse makes 7"),
        ("condition", 1, "condition gave 1 of type int: give True for a pair that matches, or False"),
        ("left_on", object(), "the join key <object object at "),
        ("predicate", 1, "predicate gave 1 of type int: give True for a row that stays, or False"),
        ("fn", [1], "fn gave [1] (list) for a column of type struct<a: int64>"),
        ("fn of a stream", "ab", "fn gave 'ab' for Windowed("),
        ("group_by", object(), "the group <object object at "),
        ("of", "7", "of gave '7' of type str: give a number, or None"),
        ("window_of", 7, f"the window of the key that StreamTableJoin looks up is 7 of type int: {NO_WINDOW}"),
        ("shift", None, f"the window of the key is None of type NoneType: {NO_WINDOW}"),
    ],
)
def test_what_a_function_should_not_give_is_one_sentence(function: str, inputs: Any, sentence: str) -> None:
    p = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(ValueError, match=".") as raised:
        FUNCTIONS[function](p, lambda *_: inputs)
        p.run()
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
