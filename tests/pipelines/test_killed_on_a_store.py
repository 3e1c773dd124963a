"""Runs that end at any of their operations on an object store: results are whole, and the next run leaves none of theirs."""

import json
import re
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.io import ReadChangelog, WriteChangelog
from beam_joins.pipelines.base.input_error import input_error_in
from tests.object_store import Forbidden, Store
from tests.pipelines.join_run import LEFT, RIGHT
from tests.pipelines.orders_run import Run

INPUTS = ["join", "--left=bucket://in/l", "--right=bucket://in/r", "--foreign-key=by", "--beam_joins_partitions=1"]
RUNS = [*INPUTS, "--state-dir=bucket://state/s", "--changes=bucket://out/c", "--latest=bucket://out/latest.jsonl"]
OF_TABLE = [
    "--beam_joins_partitions=1",
    "--state-dir=bucket://state/s",
    "--changes=bucket://out/c",
    "--latest=bucket://out/latest.jsonl",
]
SNAPSHOTS = ["table", "--snapshots=bucket://in/l", "--min-share=0", *OF_TABLE]
ALONE = [*INPUTS, "--output=bucket://out/c.jsonl", "--latest=bucket://out/latest.jsonl"]
ROW = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("lsn", pa.int64()), ("updated_at", pa.int64())])
LATER = {"l": {**LEFT[0], "id": 9, "lsn": 50, "updated_at": 50}, "r": {**RIGHT[0], "id": "q", "lsn": 51, "updated_at": 51}}


def of_command(*arguments: str) -> Callable[[Run], str]:
    """Runs a command, and gives the sentence on its failure."""

    def run(beam_joins: Run) -> str:
        ran = beam_joins(*arguments)
        assert ran.err.count("\n") == (ran.code != 0), ran.err
        return ran.err

    return run


def of_library(*options: str, log: str = "") -> Callable[[Run], str]:
    def run(beam_joins: Run) -> str:
        try:
            with beam.Pipeline(options=PipelineOptions(["--beam_joins_partitions=1", *options])) as pipeline:
                order: Any = {"key": "id", "sequence_by": "lsn", "timestamp_by": "updated_at", "emit": "changes", "schema": ROW}
                table = pipeline | "rows" >> ReadChangelog("bucket://in/l/*", **order)
                _ = table | "write rows" >> WriteChangelog("bucket://out/rows.jsonl", records="rows")
                if log:
                    _ = table | "write log" >> WriteChangelog(log)
        except Exception as error:
            sentence = str(input_error_in(error) or error)
            assert "the store said no" in sentence, error
            return sentence
        return ""

    return run


WRITES = {
    "runs": of_command(*RUNS),
    "snapshots": of_command(*SNAPSHOTS),
    "alone": of_command(*ALONE),
    "library": of_library(),
    "library in runs": of_library("--beam_joins_state=bucket://state/s", log="bucket://out/log.jsonl"),
}


def arrive(store: Store, number: int, **rows: Any) -> None:
    for side, of_side in rows.items():
        path = f"bucket://in/{side}/{number}.jsonl"
        store.put(path, "".join(json.dumps(row) + "\n" for row in of_side).encode())
        store.written[path] = 1_700_000_000.0 + number  # the same in each attempt, as it is the time of a snapshot


def all_results(store: Store) -> dict[str, bytes]:
    """What lies beside the results too, the files of several runs together."""
    together = dict[str, bytes]()
    for name, content in sorted(store.content("bucket://out/").items()):
        stem = re.sub(r"-\d{6}(?=\.)", "", name)
        together[stem] = together.get(stem, b"") + content
    return together


def results(store: Store) -> dict[str, bytes]:
    """The results, which nobody hides."""
    return {name: content for name, content in all_results(store).items() if "/." not in f"/{name}"}


def process_ends(store: Store) -> None:
    """Have the locks name a process that is no more."""
    for path in [path for path in store.objects if path.endswith((".lock", "/lock"))]:
        token, host, _, *rest = json.loads(store.objects[path])
        store.objects[path] = json.dumps([token, host, 2**22 + 1, *rest]).encode()


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.sweep), 59])
def test_a_run_that_ends_at_an_operation_is_repeated_by_the_next_to_the_same_bytes(
    beam_joins: Run, store: Store, write: str, is_killed: bool, step: int
) -> None:
    """At the operation, and where the run is killed at all later ones, the store gives an error."""
    run = WRITES[write]
    arrive(store, 1, l=LEFT[:2], r=RIGHT[:1])
    assert run(beam_joins) == ""
    arrive(store, 2, l=LEFT[2:], r=RIGHT[1:])
    start, before, operations = dict(store.objects), results(store), list[str]()
    with store.before(lambda operation, path: operations.append(operation)):
        assert run(beam_joins) == ""
    expected = results(store)
    arrive(store, 3, **{side: [row] for side, row in LATER.items()})
    assert run(beam_joins) == ""
    later = all_results(store)
    for number in range(3, len(operations), step):
        store.objects, count = dict(start), iter(range(1 << 20))

        def ends(operation: str, path: str, count: Any = count, number: int = number) -> None:
            if (now := next(count)) == number or (is_killed and now > number):
                raise Forbidden("the store said no")

        with store.before(ends):
            run(beam_joins)
        assert all(content in (expected[name], before.get(name)) for name, content in results(store).items()), number
        process_ends(store)
        assert run(beam_joins) == "", number
        assert results(store) == expected, number
        arrive(store, 3, **{side: [row] for side, row in LATER.items()})
        assert run(beam_joins) == "", number
        assert all_results(store) == later, number
        state = {name: content for name, content in store.content("bucket://state/s/").items() if name != "manifest.json"}
        manifest = store.objects.get("bucket://state/s/manifest.json", b"").decode()
        assert all(f'"{name}"' in manifest for name in state), number
