"""Damaged input files: one sentence, or the records that are there, and the same ones whichever way they are
read.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.sample.sample_files import write_sample
from beam_joins.pipelines.formats.csv import CsvReader, _row
from beam_joins.pipelines.formats.file_parts import File
from tests.hostile.changelogs import WRITTEN, bz2, json_lines, read
from tests.hostile.damage import TIMES, damaged
from tests.pipelines.naive_orders import Row
from tests.pipelines.orders_run import read_lines

LONGEST = 600
WORDS = [
    *(b"NaN", b"Infinity", b"1e999", b"-1e-999", b"9" * 25, b"9" * 5_000, b"0x10", b"1_000", b"9223372036854775808", b"1.5", b"null"),
    *(b'"2024-13-01"', b'"0001-01-01T00:00:00+14:00"', b'"op":"d",', b'"lsn":', b'"customer":1,', b"true", b"\\ud800", b"\xff\xfe"),
    *(b"\x00", b'"', b"\\", b"{", b"}", b"[" * 3_000, b"\n", b"\r", b",", b":", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b" " * 50),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return read_lines(write_sample(tmp_path_factory.mktemp("sample"), orders=40, customers=9, seed=3).orders)


@pytest.mark.parametrize("name", WRITTEN)
def test_undamaged_files_are_read_the_same_whichever_way(name: str, rows: list[Row], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(WRITTEN[name](rows))
    many, one_by_one = read(path, "drop")
    assert many == one_by_one
    assert len(many) == len(rows)


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=60 * TIMES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["fail", "drop"]))
def test_a_damaged_file_is_one_sentence_or_its_records(
    name: str, rows: list[Row], tmp_path: Path, data: st.DataObject, on_bad_record: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data.draw(damaged([WRITTEN[name](rows[:4]), WRITTEN[name](rows)], WORDS)))
    try:
        many, one_by_one = read(path, on_bad_record)  # type: ignore[arg-type]
    except InputError as error:
        assert str(error).startswith("orders: ")
        assert len(str(error).splitlines()) == 1
        assert len(str(error)) < LONGEST
    else:
        assert repr(many) == repr(one_by_one)  # nan too


def test_a_damaged_stream_of_bzip2_behind_the_first_is_not_the_end_of_the_file(rows: list[Row], tmp_path: Path) -> None:
    damage = bytearray(bz2.compress(json_lines(rows[20:])))
    damage[1] ^= 1
    path = tmp_path / "orders.jsonl.bz2"
    path.write_bytes(bz2.compress(json_lines(rows[:20])) + damage)
    with pytest.raises(InputError, match=r"^orders: cannot read .*: Invalid data stream$"):
        read(path, "drop")


@pytest.mark.parametrize("digits", ["1e-2147483647", "1e-99", "0." + "0" * 60 + "1", "1e99999999"])
def test_a_decimal_of_more_digits_than_there_are_is_a_bad_record(digits: str) -> None:
    """Arrow reads beyond its tables for some of these."""
    fault = _row(f"{digits}\n".encode(), replace(File.at("x.csv", CsvReader()), layout=(("amount", "decimal(10,2)"),)))
    assert isinstance(fault, str)
    assert fault.startswith("column 'amount' is not of type decimal(10,2)")
