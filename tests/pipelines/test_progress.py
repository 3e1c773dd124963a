"""What a run says while it lasts, and what it costs those who do not look: nothing where the log of reading
is not seen.
"""

import io
import threading

import pytest

from beam_joins.pipelines.base import progress
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.changelogs.read_log import LogEntries, ReadLog
from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.formats.file_parts import File, Part
from beam_joins.pipelines.formats.json_lines import JsonLinesReader
from tests.pipelines.orders_run import Run


def part(number: int, size: int = 1_000) -> Part:
    return Part(number, File(path=f"{number}.jsonl", bytes=size, shown="", reader=JsonLinesReader()), 0, size)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(progress, "LINE_SECONDS", {True: 0.01, False: 0.02})
    asked = threading.Semaphore(0)

    def detail() -> str:
        asked.release()
        return "7 rows read"

    seconds = iter([0.0])  # the run begins, and all else is 1.2 seconds later
    with Progress(stream, clock=lambda: next(seconds, 1.2)).phase("run", detail):
        assert all(asked.acquire(timeout=60) for _ in range(3)), "there is no third line"
    return stream.getvalue()


def test_a_log_with_what_is_no_entry_counts_up_to_there(tmp_path):
    path = str(tmp_path / "read.log")
    log = ReadLog(path, [[part(0)]])
    with LogEntries(path, 0).of(part(0)) as entries:
        entries.add(10, 0)
    with open(path, "ab") as file:
        file.write(b"\x07" * 12)
    with LogEntries(path, 0).of(part(0)) as entries:
        entries.add(5, 0)
    assert [(each.rows, each.seconds, each.bytes) for each in (*log.read(), *log.read())] == [(10, 0, 1_000)] * 2


def test_what_workers_log_of_parts_is_added_up_by_changelog(tmp_path):
    path = str(tmp_path / "read.log")
    log = ReadLog(path, [[part(0), part(1)], [part(0, 50)]])
    for changelog, number, rows in ((0, 0, 10), (0, 1, 20), (1, 0, 3)):
        with LogEntries(path, changelog).of(part(number)) as entries:
            entries.add(rows, 2_000_000_000)
    with pytest.raises(ValueError, match="cut off"), LogEntries(path, 0).of(part(1)) as entries:
        entries.add(5, 0)
        raise ValueError("cut off")
    orders, customers = log.read()
    assert (orders.rows, orders.seconds, orders.whole_rows, orders.bytes) == (35, 4.0, 35, 2_000)
    assert (customers.rows, customers.bytes) == (3, 50)
    assert log.read() == [orders, customers]


def test_a_part_that_is_being_read_is_not_among_those_read_whole(tmp_path):
    path = str(tmp_path / "read.log")
    log = ReadLog(path, [[part(0)]])
    with LogEntries(path, 0).of(part(0)) as entries:
        entries.add(10, 0)
        (read,) = log.read()
        assert (read.rows, read.whole_rows, read.bytes) == (10, 0, 0)


def test_a_worker_that_cannot_see_the_log_reads_all_the_same(tmp_path):
    with LogEntries(str(tmp_path / "elsewhere" / "read.log"), 0).of(part(0)) as entries:
        entries.add(10, 0)
    assert ReadLog(None, [[part(0)]]).read()[0].rows == 0


def test_on_a_terminal_one_line_is_written_anew_and_taken_away_at_the_end(monkeypatch):
    written = shown(Terminal(), monkeypatch)
    assert "\r\x1b[Krun: 1 s, 7 rows read" in written
    assert written.endswith("\r\x1b[K")
    assert "\n" not in written


def test_elsewhere_there_is_a_line_now_and_then_without_control_characters(monkeypatch):
    lines = shown(io.StringIO(), monkeypatch).splitlines()
    assert len(lines) > 1
    assert set(lines) == {"run: 1 s, 7 rows read"}


def test_a_run_shorter_than_half_a_minute_says_nothing_in_a_log_file(run: Run, small: SampleFiles):
    ran = run("--orders", small.orders, "--customers", small.customers, "--latest", "l.jsonl")
    assert (ran.code, ran.err) == (0, "")


def test_the_summary_says_what_the_engine_did(run: Run, small: SampleFiles):
    ran = run("--orders", small.orders, "--customers", small.customers, "--latest", "l.jsonl", "--beam_joins_broadcast_bytes=0")
    engine = ran.out.partition("\nengine\n")[2].partition("\nseconds\n")[0].splitlines()
    assert [line.split()[0] for line in engine] == ["customers", "join", "orders", "blocks"]
    assert "without a partner" in engine[1]


@pytest.mark.sweep
@pytest.mark.spark
def test_on_spark_the_log_of_reading_and_the_engines_figures_are_there_too(run: Run, small: SampleFiles):
    ran = run("--orders", small.orders, "--customers", small.customers, "--latest", "l.jsonl", "--runner=SparkRunner")
    engine = ran.out.partition("engine\n")[2].partition("seconds\n")[0].splitlines()
    assert [line.split()[0] for line in engine] == ["customers", "join", "orders", "blocks"]
