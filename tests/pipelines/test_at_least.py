"""The filter of rows by a number in them: the same rows in every form, as their numbers are written."""

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.pipelines.commands.at_least import AtLeast
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.read_plan import Form, ReadPlan

COLUMNS = Columns(key=("id",), timestamp="at")


def passed(least: str, form: Form, rows: pa.Array) -> list[bool]:
    plan = ReadPlan(columns=COLUMNS, numbers=("n",), forms=(form,))
    batch = pa.record_batch({form: rows})
    kept: list[bool] = AtLeast("n", Decimal(least), "--n").passes(plan, batch).to_pylist()
    return kept


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        ("0.3", [False, True, False, True, False, False, True]),
        ("9007199254740993", [False, False, False, True, False, False, True]),
        ("-1e400", [True, True, True, True, False, False, True]),
    ],
)
def test_rows_in_json_and_in_typed_columns_are_compared_alike(least: str, expected: list[bool]) -> None:
    numbers = [-0.1, 0.3, -5, 9007199254740993, None, float("nan"), float("inf")]
    texts = [b"-0.1", b"0.3", b"-5", b"9007199254740993", b"null", b'"NaN"', b'"Infinity"']
    in_json: list[bytes | None] = [b'{"a":{"n":7},"n":' + text + b"}" for text in texts]
    assert passed(least, "json lines", [*in_json, None]) == [*expected, False]
    assert passed(least, "json lines", in_json[:4]) == expected[:4], "all of them are numbers"
    for kind in (pa.float64(), pa.decimal128(20, 1), pa.int64(), pa.string()):
        of_kind = [(n, at) for n, number in enumerate(numbers) for at in [_as(number, kind)] if at is not None or number is None]
        rows = pa.array([{"n": at} for _, at in of_kind] + [None], pa.struct([("n", kind)]))
        assert passed(least, "columns", rows) == [*(expected[n] for n, _ in of_kind), False], kind


def _as(number: Any, kind: pa.DataType) -> Any:
    """The number in a column of the type, None where it has no such value."""
    if number is None:
        return None
    if pa.types.is_string(kind):
        return str(number)
    if pa.types.is_floating(kind):
        return float(number)
    if not math.isfinite(number) or (pa.types.is_integer(kind) and number != int(number)):
        return None
    return int(number) if pa.types.is_integer(kind) else Decimal(str(number))


def test_a_row_without_the_column_is_not_kept() -> None:
    assert passed("-1", "json lines", [b"{}", b'{"n":-1}', b'{"m":{"n":5}}']) == [False, True, False]
    assert passed("-1", "json lines", pa.array([], pa.binary())) == []
