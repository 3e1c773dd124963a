"""Endless pipelines that the tests run, what they write, and how the tests wait for it."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.transforms.window import FixedWindows, TimestampedValue

FIRST = 1_700_000_000_000_000
STEP = 100_000
WAIT_SECONDS = 240.0
MANY_RESTARTS = "--flink_conf=restart-strategy.failure-rate.max-failures-per-interval=20"
"""For jobs whose workers are killed one by one, each of which may be a restart that meets another dying worker."""


def row(number: int) -> dict[str, int]:
    """The rows of all tests: ten a second of event time."""
    return {"id": number % 7, "n": number, "at": FIRST + number * STEP}


def lines(numbers: range) -> str:
    return "".join(json.dumps(row(number)) + "\n" for number in numbers)


class Append(beam.DoFn):
    """Appends a line for each element to a file of this process; what a worker that is killed has written
    stays.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def process(self, element: Any) -> None:
        with (self._directory / f"{os.getpid()}.out").open("a") as file:
            file.write(json.dumps(element) + "\n")


def rows_of(batch: Any) -> Iterator[Any]:
    for each in batch.to_pylist():
        yield TimestampedValue(each, each["at"] / 1e6)


def count_windows(rows: Any, directory: Path) -> None:
    """Writes [key, start of the window of ten seconds, its numbers in order]: each window once, when the
    watermark has passed it.
    """
    pairs = rows | "Pairs" >> beam.Map(lambda row: (row["id"], row["n"])).with_output_types(tuple[int, int])
    windows = pairs | beam.WindowInto(FixedWindows(10)) | beam.GroupByKey()
    written = windows | beam.MapTuple(lambda key, numbers, window=beam.DoFn.WindowParam: [key, int(window.start), sorted(numbers)])
    _ = written | "Append" >> beam.ParDo(Append(directory))


def written(directory: Path) -> list[Any]:
    return [json.loads(line) for file in directory.glob("*.out") for line in file.read_text().splitlines()]


def windows_of(numbers: range) -> list[list[Any]]:
    """What `count_windows` should have written of the rows, the last and unfinished window left out."""
    windows: dict[tuple[int, int], list[int]] = {}
    for each in map(row, numbers):
        windows.setdefault((each["id"], each["at"] // 10_000_000 * 10), []).append(each["n"])
    last = row(numbers[-1])["at"] // 10_000_000 * 10
    return sorted([key, start, actual] for (key, start), actual in windows.items() if start < last)


def python_workers() -> set[int]:
    """The processes that the keeper has forked, which is a child of this one."""
    return {worker.pid for keeper in psutil.Process().children() if keeper.name() != "java" for worker in keeper.children()}


def kill(workers: Iterable[int]) -> None:
    """Kill processes, some of which may have ended."""
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < until, f"it did not happen within {WAIT_SECONDS:.0f} seconds"
        time.sleep(0.1)
