"""Values in JSON as columns of a schema, which hold them exactly, at every depth."""

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from beam_joins.pipelines.formats.types.typed_texts import typed

NOON = "2026-03-01T12:00:00"


def read(value: Any, kind: pa.DataType) -> Any:
    texts = [json.dumps({"x": value, "other": 1}).encode(), b"{}"]
    first, second = typed(texts, pa.schema([("x", kind)])).to_pylist()
    assert second == {"x": None}
    return first["x"]


@pytest.mark.parametrize("within", ["alone", "in a struct", "in a list"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int64()),
        (300, pa.int8()),
        (True, pa.int64()),
        (1, pa.bool_()),
        (1e300, pa.float32()),
        (1.555, pa.decimal128(10, 2)),
        (f"{NOON}.000005", pa.timestamp("s")),
        (f"{NOON}.000005Z", pa.timestamp("s", "UTC")),
        (NOON, pa.timestamp("us", "UTC")),
        (f"{NOON}Z", pa.timestamp("us")),
        (NOON, pa.date32()),
        ("12:00:00.5", pa.time32("s")),
        (5, pa.timestamp("us")),
        ("ab", pa.list_(pa.string())),
        ({"n": 1, "m": 2}, pa.struct([("n", pa.int64())])),
    ],
)
def test_a_value_that_a_column_does_not_hold_is_refused(value, kind, within):
    if within != "alone":
        value, kind = ({"s": value}, pa.struct([("s", kind)])) if within == "in a struct" else ([value], pa.list_(kind))
    with pytest.raises(ValueError, match="x"):
        read(value, kind)


UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def times_of(unit: str) -> list[tuple[pa.DataType, str, str]]:
    """Types of a unit, with what is before and behind the digits of a second in their texts."""
    clock = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    zoned = [(pa.timestamp(unit, "UTC"), NOON, zone) for zone in ("Z", "+00:00", "-02:30")]
    return [(pa.timestamp(unit), NOON, ""), (pa.timestamp(unit), NOON.replace("T", " "), ""), *zoned, (clock, "12:00:00", "")]


@pytest.mark.parametrize("within", ["alone", "in a struct", "in a list"])
@pytest.mark.parametrize("unit", UNITS)
def test_zeros_behind_the_digits_of_a_unit_are_read_and_other_digits_refused(unit: str, within: str) -> None:
    most = UNITS[unit] if within == "alone" else min(UNITS[unit], 6)  # nanoseconds are read of columns alone
    for kind, before, behind in times_of(unit):
        wrapped = {"alone": kind, "in a struct": pa.struct([("s", kind)]), "in a list": pa.list_(kind)}[within]

        def value(digits: str, before: str = before, behind: str = behind) -> Any:
            text = f"{before}.{digits}{behind}" if digits else f"{before}{behind}"
            return {"alone": text, "in a struct": {"s": text}, "in a list": [text]}[within]

        for digits in ("", "5", "25", "678", "6780", "678901", "67890100", "678901234", "000", "000000", "0000000000", "6789012340"):
            if len(digits.rstrip("0")) <= most:
                column = typed([json.dumps({"x": value(digits)}).encode()], pa.schema([("x", wrapped)])).column(0)
                whole = typed([json.dumps({"x": value(digits.rstrip("0"))}).encode()], pa.schema([("x", wrapped)])).column(0)
                assert column.equals(whole), (kind, digits)
            else:
                with pytest.raises(ValueError, match="x"):
                    typed([json.dumps({"x": value(digits)}).encode()], pa.schema([("x", wrapped)]))


def test_bytes_are_read_of_base64_at_every_depth():
    assert read("AP8=", pa.binary()) == b"\0\xff"
    assert read(["AP8=", None], pa.list_(pa.binary())) == [b"\0\xff", None]
    assert read({"b": "AP8="}, pa.struct([("b", pa.large_binary())])) == {"b": b"\0\xff"}
    with pytest.raises(ValueError, match="column 'x' is not of type binary"):
        read("no base64", pa.binary())


def test_what_loses_nothing_is_read():
    who = pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.list_(pa.int64())), ("f", pa.float32())])
    value = {"at": "2026-03-01 13:00:00+01:00", "n": [1.0, None], "f": 0.5}
    assert read(value, who) == {"at": dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC), "n": [1, None], "f": 0.5}
    assert read(7.0, pa.int64()) == 7
    assert read({"a": 1}, pa.map_(pa.string(), pa.int64())) == [("a", 1)]
