"""Sources that never end, without a runner: how event time goes on, what a checkpoint leaves, and what of a
file is read when.
"""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from beam_joins import FunctionFailed
from beam_joins.errors import InputError
from beam_joins.io import ReadGrowingFiles
from beam_joins.pipelines.changelogs import event_time, source_reads
from beam_joins.pipelines.changelogs.event_time import EventTime, EventTimeEstimator, Seen
from beam_joins.pipelines.changelogs.source_reads import OpenEnded, ReadPiece, Timed
from beam_joins.pipelines.changelogs.source_rows import SourceRows
from beam_joins.pipelines.systems.files.growing_files import Files
from tests.pipelines.streaming.jobs import lines, row

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "at": pa.int64()})
SECOND = 1_000_000


class Reader:
    """Reads what has come since the last time, as the DoFn does."""

    def __init__(self, pattern: str, *, schema: pa.Schema | None = None, follow: bool = True) -> None:
        self._files = Files(SourceRows.of("at", schema), follow)
        self._pattern = pattern
        self.place, self.end = self._files.range(pattern)

    def read(self, pieces: int | None = None) -> list[int]:
        """The numbers of the rows of so many pieces."""
        numbers: list[int] = []
        for count, piece in enumerate(self._files.pieces(self._pattern, self.place, self.end)):
            if count == pieces:
                break
            self.place = piece.after
            for value, micros in piece.elements:
                actual = [value] if isinstance(value, dict) else value.to_pylist()
                assert micros == min(each["at"] for each in actual)
                numbers += [each["n"] for each in actual]
        return numbers


def write_arrow(table: pa.Table, path: Path, rows: int) -> None:
    feather.write_feather(table, path, chunksize=rows)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 30)), min_size=1), st.integers(0, 50), st.none() | st.integers(0, 20))
def test_the_watermark_never_goes_back_and_without_idleness_depends_on_the_rows_alone(arrivals, disorder, idle):
    clock, seen, before = 0, Seen(None, 0), -50 * SECOND
    policy = EventTime.of(disorder, idle)
    for time, pause in arrivals:
        clock += pause * SECOND
        seen = policy.after(seen, time * SECOND, clock)
        watermark = policy.at(seen, clock + pause * SECOND)
        assert watermark is not None
        assert watermark >= before
        assert watermark >= (time - disorder) * SECOND
        before = watermark
        seen = seen._replace(watermark=watermark)
    if idle is None:
        assert before == (max(time for time, _ in arrivals) - disorder) * SECOND


def test_a_source_without_rows_has_no_watermark_until_it_is_idle(monkeypatch):
    monkeypatch.setattr(event_time, "_now", lambda: 100 * SECOND)
    assert EventTimeEstimator(EventTime.of(10, None), Seen(None, 0)).current_watermark() == MIN_TIMESTAMP
    assert EventTimeEstimator(EventTime.of(10, 101), Seen(None, 0)).current_watermark() == MIN_TIMESTAMP
    assert EventTimeEstimator(EventTime.of(10, 100), Seen(None, 0)).current_watermark() == Timestamp(90)


def test_a_watermark_goes_on_from_its_checkpoint_and_is_cut_to_the_millisecond():
    estimator = EventTimeEstimator(EventTime.of(0, None), Seen(None, 0))
    estimator.saw(1_234_567)
    again = EventTimeEstimator(EventTime.of(0, None), Seen(*estimator.get_estimator_state()))
    again.saw(1_000_000)
    assert again.current_watermark() == Timestamp(micros=1_234_000)


@pytest.mark.parametrize("option", ["out_of_orderness", "idle_after"])
def test_a_span_that_is_none_is_named(option):
    with pytest.raises(ValueError, match=option):
        ReadGrowingFiles("*.jsonl", timestamp_by="at", **{option: "soon"})


def test_a_checkpoint_leaves_what_was_not_claimed_and_nothing_can_be_claimed_after_it():
    tracker = OpenEnded((("", 0), None))
    with pytest.raises(ValueError, match="was left at"):
        tracker.check_done()
    assert tracker.try_claim(("a", 7))
    assert tracker.try_split(0.5) is None
    assert tracker.try_split(0) == ((("", 0), ("a", 7)), (("a", 7), None))
    assert not tracker.try_claim(("a", 9))
    assert tracker.current_restriction() == (("", 0), ("a", 7))
    assert tracker.check_done()
    assert not tracker.is_bounded()


def test_only_whole_lines_are_read_and_a_line_once(tmp_path):
    file, reader = tmp_path / "a.jsonl", Reader(f"{tmp_path}/*.jsonl")
    assert reader.read() == []
    text = lines(range(3))
    append(file, text[:-10])
    assert reader.read() == [0, 1]
    assert reader.read() == []
    append(file, text[-10:])
    assert reader.read() == [2]


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["dicts", "batches"])
def test_files_are_read_in_the_order_of_their_names_and_each_once(tmp_path, schema):
    reader = Reader(f"{tmp_path}/*.jsonl", schema=schema)
    (tmp_path / "b.jsonl").write_text(lines(range(10, 12)))
    (tmp_path / "a.jsonl").write_text(lines(range(2)))
    assert reader.read() == [0, 1, 10, 11]
    (tmp_path / "c.jsonl").write_text(lines(range(20, 22)))
    append(tmp_path / "b.jsonl", lines(range(12, 13)))
    (tmp_path / "a5.jsonl").write_text(lines(range(5, 6)))  # too late: b.jsonl has been begun
    assert reader.read() == [12, 20, 21]
    append(tmp_path / "b.jsonl", lines(range(13, 14)))
    assert reader.read() == []


def test_the_last_line_of_a_file_needs_no_newline_once_there_is_a_later_file(tmp_path):
    reader = Reader(f"{tmp_path}/*.jsonl")
    (tmp_path / "a.jsonl").write_text(lines(range(2)).rstrip("\n"))
    assert reader.read() == [0]
    (tmp_path / "b.jsonl").write_text(lines(range(2, 3)))
    assert reader.read() == [1, 2]


def test_files_behind_one_that_ends_within_a_record_wait_for_it_and_that_is_said(tmp_path, caplog):
    reader = Reader(f"{tmp_path}/*.jsonl")
    (tmp_path / "a.jsonl").write_text(lines(range(2))[:-10])
    (tmp_path / "b.jsonl").write_text(lines(range(2, 3)))
    assert reader.read() == [0]
    assert "a.jsonl ends within a record" in caplog.text
    append(tmp_path / "a.jsonl", lines(range(2))[-10:])
    assert reader.read() == [1, 2]


def test_avro_is_read_by_whole_blocks(tmp_path):
    whole, file = tmp_path / "whole", tmp_path / "a.avro"
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": "long"} for name in ("id", "n", "at")]}
    with whole.open("wb") as out:
        fastavro.writer(out, schema, map(row, range(1_000)), sync_interval=1_000)
    data = whole.read_bytes()
    whole.unlink()
    reader, numbers = Reader(f"{tmp_path}/*.avro"), []
    for cut in (3, 100, len(data) // 3, len(data) // 2, len(data) - 1, len(data)):
        file.write_bytes(data[:cut])
        numbers.append(reader.read())
    assert [number for some in numbers for number in some] == list(range(1_000))
    assert numbers[0] == []
    assert all(numbers[2:4])


@pytest.mark.parametrize(("format_", "write"), [("parquet", pq.write_table), ("arrow", write_arrow), ("feather", write_arrow)])
def test_a_file_in_columns_is_read_by_its_groups_of_rows_once_it_has_its_footer(tmp_path, format_, write):
    file, reader = tmp_path / f"a.{format_}", Reader(f"{tmp_path}/*.{format_}", schema=SCHEMA)
    write(pa.Table.from_pylist([{**row(n), "more": "x"} for n in range(100)]), file, 40)
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert reader.read() == []
    file.write_bytes(data)
    assert reader.read(pieces=1) == list(range(40))
    assert reader.read() == list(range(40, 100))
    assert reader.read() == []


def test_a_foreign_file_and_a_truncated_one_in_columns_are_one_sentence(tmp_path):
    (tmp_path / "a.arrow").write_bytes(b"PAR1 and more")
    with pytest.raises(InputError, match=r"a\.arrow: is not an Arrow file"):
        Reader(f"{tmp_path}/*.arrow", schema=SCHEMA).read()
    write_arrow(pa.Table.from_pylist([row(1)]), tmp_path / "a.arrow", 1)
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-7])
    with pytest.raises(InputError, match=r"a\.arrow ends within a record"):
        Reader(f"{tmp_path}/*.arrow", schema=SCHEMA, follow=False).read()


def test_numbers_of_an_arrow_file_are_exact_and_its_schema_is_that_of_the_rows(tmp_path):
    numbers = pa.table(
        {"at": [1, 2], "wide": pa.array([2**64 - 1, 2**53 + 1], pa.uint64()), "word": pa.array(["a", "b"], pa.string_view())}
    )
    write_arrow(numbers, tmp_path / "a.arrow", 2)
    with beam.Pipeline() as pipeline:
        rows = pipeline | ReadGrowingFiles(f"{tmp_path}/*.arrow", timestamp_by="at", follow=False)
        read = rows | beam.Map(lambda batch: (str(batch.schema.field("wide").type), *batch.column("wide").to_pylist()))
        assert_that(read, equal_to([("uint64", 2**64 - 1, 2**53 + 1)]))


def test_what_is_there_is_read_to_its_end_and_no_later_file(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(range(2)))
    (tmp_path / "b.jsonl").write_text(lines(range(2, 4)).rstrip("\n"))
    reader = Reader(f"{tmp_path}/*.jsonl", follow=False)
    (tmp_path / "c.jsonl").write_text(lines(range(4, 5)))
    assert reader.read() == [0, 1, 2, 3]
    assert reader.place == reader.end
    (tmp_path / "c.jsonl").write_text(lines(range(4, 5))[:-5])
    with pytest.raises(InputError, match=r"c\.jsonl ends within a record"):
        Reader(f"{tmp_path}/*.jsonl", follow=False).read()


@pytest.mark.parametrize(
    ("line", "schema", "message"),
    [
        ("nonsense", None, r"a\.jsonl: a record cannot be read"),
        ("nonsense", SCHEMA, r"a\.jsonl: a record cannot be read"),
        (json.dumps({"id": 1, "n": 1}), SCHEMA, r"a\.jsonl: a record cannot be read \(no column 'at'\)"),
        (json.dumps({"id": 1, "n": 1, "at": "noon"}), None, r"a\.jsonl: timestamp_by gave 'noon'"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path, line, schema, message):
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        Reader(f"{tmp_path}/*.jsonl", schema=schema).read()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "*.xml"}, r"ends with one of \.avro, \.jsonl, \.json, \.ndjson, \.parquet, \.arrow, \.feather"),
        ({"pattern": "*.parquet"}, "there is no file .* give a schema"),
        ({"pattern": "*.arrow"}, "there is no file .* give a schema"),
        ({"schema": SCHEMA, "timestamp_by": "when"}, "timestamp_by='when': with a schema give one of its columns: id, n, at"),
        ({"timestamp_by": 7}, "timestamp_by=7: give the name of a column, or a function"),
    ],
)
def test_a_wrong_option_lists_the_choices(tmp_path, options, message):
    given = {"pattern": "*.jsonl", "timestamp_by": "at", **options}
    with pytest.raises(ValueError, match=message):
        ReadGrowingFiles(f"{tmp_path}/{given.pop('pattern')}", **given)


@pytest.mark.parametrize(
    ("line", "timestamp_by", "sentence"),
    [
        ('{"id": 1}', "at", "a row has no column 'at' \\(timestamp_by=\\); it has id"),
        ('{"at": null}', "at", "timestamp_by gave None: give each row a time"),
        ('{"at": "noon"}', "at", "timestamp_by gave 'noon' of type str"),
        ('{"at": 99999999999999999999}', "at", "timestamp_by gave 99999999999999999999, which does not fit in 64 bits"),
        ("[1]", "at", "a record cannot be read .not a JSON object but \\[1\\]"),
        ('{"id": 1}', lambda row: row["at"], "ReadGrowingFiles: timestamp_by raised KeyError: 'at', given {'id': 1}"),
        ('{"id": 1}', lambda row: 2**63, "timestamp_by.* 9223372036854775808"),
    ],
)
def test_a_row_without_a_time_is_one_sentence(tmp_path: Path, line: str, timestamp_by: Any, sentence: str) -> None:
    append(tmp_path / "a.jsonl", f"{line}\n")
    source = Files(SourceRows.of(timestamp_by, None), follow=False)
    with pytest.raises((InputError, FunctionFailed), match=sentence) as raised:
        list(source.pieces(str(tmp_path / "*.jsonl"), *source.range(str(tmp_path / "*.jsonl"))))
    assert "\n" not in str(raised.value)


class Clock:
    """The clock of :mod:`source_reads`: it goes on by sleeping only."""

    def __init__(self, micros: int) -> None:
        self.micros = micros
        self.slept: list[float] = []

    def time_ns(self) -> int:
        return self.micros * 1000

    def monotonic(self) -> float:
        return self.micros / 1e6

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.micros += round(seconds * 1e6)


class Numbers:
    """A source of so many pieces of 60,000 rows each time that it is read."""

    def __init__(self) -> None:
        self.there = 0

    def pieces(self, element: Any, place: int, end: int | None) -> Any:
        return (ReadPiece(place + n, [Timed(n, n)], n, 60_000) for n in range(1, self.there + 1))

    def close(self) -> None:
        pass


class Deferring(OpenEnded):
    """A tracker that a DoFn sees."""

    def defer_remainder(self, pause: Any = None) -> None:
        self.pause = pause
        self.try_split(0)


def test_a_source_that_is_read_up_to_now_is_read_again_a_quarter_of_a_second_later_though_the_runner_does_not_wait(monkeypatch):
    clock, source = Clock(1_000_034_000), Numbers()
    monkeypatch.setattr(source_reads, "time", clock)
    dofn = source_reads.Follow(source, EventTime.of(0, None))

    def bundle(*there: int) -> list[Any]:
        dofn.start_bundle()
        trackers = []
        for source.there in there:
            trackers.append(Deferring((0, None)))
            list(dofn.process("element", trackers[-1], EventTimeEstimator(dofn.event_time, Seen(None, 0))))
        dofn.finish_bundle()
        return [tracker.pause for tracker in trackers]

    assert bundle(0) == [source_reads._PAUSE]
    assert bundle(1, 0) == [source_reads._PAUSE] * 2
    # one wait for all elements of a bundle
    assert clock.slept == [0.246]
    # there is more to read: no wait
    assert bundle(1, 2) == [source_reads._PAUSE, None]
    assert clock.slept[1:] == [0.25]
    assert bundle(0) == [source_reads._PAUSE]
    assert len(clock.slept) == 2
    # the runner has waited
    clock.micros += 300_000
    bundle(0)
    assert len(clock.slept) == 2
    # the clock is put back
    clock.micros -= 3_600_000_000
    bundle(0)
    assert clock.slept[2:] == [0.25]
