"""A state in a store of objects, where no lock keeps runs apart: no record is lost, whoever opens, commits or is killed when."""

import contextlib
import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import LatestTable, TableFromChangelog
from beam_joins.coders import CorruptData
from beam_joins.errors import OutputError, StateRefused, Unavailable
from beam_joins.transforms.engine.files import reachability, stored_files
from beam_joins.transforms.engine.resumed.ended_turns import EndedTurns
from beam_joins.transforms.engine.resumed.manifest import read_manifest
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from tests.object_store import Forbidden, NotFound, Store

STATE = "bucket://state/here"
ONE, TWO, THREE, FOUR = ({"id": n, "at": n} for n in (1, 2, 3, 4))


@pytest.fixture(autouse=True)
def without_leases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each run has stood still for so long that others have taken its lease over."""
    if "lease" not in request.node.name:
        monkeypatch.setattr(StateFiles, "_take_lease", lambda files: files.require_reachable())


@pytest.fixture
def of_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no worker were in the process that commits the run."""
    monkeypatch.setattr(EndedTurns, "are_here", False)


class Killed(BaseException):
    """As if the process ended."""


GIVEN: list[dict[str, int]] = []
"""The records of a pipeline that runs more than once."""
SEEN: list[int] = []
"""The keys that the table of the last pipeline had."""


REFUSED = 99


def see(row: tuple[int, Any]) -> None:
    if row[0] == REFUSED:
        raise ValueError("a row that is refused")
    SEEN.append(row[0])


def latest(pipeline: beam.Pipeline, *rows: dict[str, int]) -> None:
    SEEN.clear()
    read = pipeline | beam.Create(rows).with_output_types(dict)
    _ = read | "table" >> TableFromChangelog(key="id", sequence_by="at", timestamp_by="at") | LatestTable() | beam.Map(see)


def under_way(*rows: dict[str, int], at: str = STATE) -> StateFolder:
    """A run that has done everything but to commit, with a result to be renamed."""
    folder = StateFolder(at)
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--beam_joins_partitions=1"])) as pipeline:
        folder.attach(pipeline)
        latest(pipeline, *rows)
    return folder


def commit(folder: StateFolder, store: Store) -> bool:
    """Whether a run could be committed."""
    result = str(rows_of(folder))
    store.put(f"bucket://out/part-{result}", result.encode())
    try:
        with folder:
            folder.commit([(f"bucket://out/part-{result}", f"bucket://out/run-{folder.run}")])
    except StateRefused as refused:
        assert "counts for nothing" in str(refused)
        return False
    return True


def rows_of(folder: StateFolder) -> Any:
    return folder.inputs.get("rows")


def run(*rows: dict[str, int]) -> list[int]:
    """A run, and the keys that the table has behind it."""
    with under_way(*rows) as folder:
        folder.commit()
    return sorted(SEEN)


def two_under_way(store: Store) -> tuple[StateFolder, StateFolder]:
    """Two runs with a row each behind a first one."""
    run(ONE)
    folders = under_way(TWO), under_way(THREE)
    for number, folder in zip((2, 3), folders, strict=True):
        folder.inputs["rows"] = number
    return folders


def whole(store: Store) -> int:
    """The number of the last run, whose files are all there."""
    manifest = read_manifest(store.objects[f"{STATE}/manifest.json"].decode(), "")
    assert manifest.files <= {*store.names(f"{STATE}/")}
    return manifest.run


def at_each_operation(store: Store, action: Callable[[], None], done: Callable[[], object], check: Callable[[], None]) -> int:
    """Do something with an action in front of its first operation, of its second one, and so on, each time from the same store."""
    present, number, happened = dict(store.objects), 0, True
    while happened:
        number, left, happened = number + 1, [number + 1], False
        store.objects = dict(present)

        def acts(operation: str, path: str, left: list[int] = left) -> None:
            nonlocal happened
            left[0] -= 1
            if not left[0]:
                happened = True
                action()

        with store.before(acts):
            done()
        if happened:
            check()
    return number - 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_runs_side_by_side_one_counts_and_the_records_of_the_other_come_with_its_next_try(
    store: Store, order: tuple[int, int]
) -> None:
    folders = two_under_way(store)
    assert [commit(folders[which], store) for which in order] == [True, False]
    assert whole(store) == 2
    assert run((TWO, THREE)[order[1]]) == [1, 2, 3]


def test_whoever_opens_a_state_removes_nothing_of_a_run_under_way(store: Store) -> None:
    run(ONE)
    folder = under_way(TWO)
    for _ in range(2):
        StateFolder(STATE).close()
    assert commit(folder, store)
    assert run(THREE) == [1, 2, 3]


def test_a_second_commit_at_any_moment_of_the_first_is_refused_or_the_first_one_is(store: Store) -> None:
    one, other = two_under_way(store)
    counted = list[bool]()

    def second() -> None:
        counted.append(commit(copy.deepcopy(other), store))

    def first() -> None:
        counted.append(commit(copy.deepcopy(one), store))

    def check() -> None:
        StateFolder(STATE).close()
        assert sorted(counted) == [False, True]
        assert whole(store) == 2
        rows = read_manifest(store.objects[f"{STATE}/manifest.json"].decode(), "").inputs["rows"]
        assert rows == (3 if counted[0] else 2)
        assert store.objects["bucket://out/run-2"] == str(rows).encode()
        counted.clear()

    assert at_each_operation(store, second, first, check) > 20


def test_a_state_that_is_opened_at_any_moment_of_a_commit_is_that_before_it_or_behind_it(store: Store) -> None:
    run(ONE)
    folder = under_way(TWO)
    counted = list[bool]()

    def check() -> None:
        assert (counted.pop(), whole(store), store.names("bucket://out/")) == (True, 2, ["run-2"])

    done = lambda: counted.append(commit(copy.deepcopy(folder), store))  # noqa: E731
    assert at_each_operation(store, lambda: StateFolder(STATE).close(), done, check) > 20


def test_a_run_that_is_killed_at_any_moment_of_its_commit_counts_or_does_not(store: Store) -> None:
    run(ONE)
    folder = under_way(TWO)
    runs = list[int]()

    def killed() -> None:
        raise Killed

    def done() -> None:
        left = copy.deepcopy(folder)
        left.close = lambda: None  # type: ignore[method-assign]
        with contextlib.suppress(Killed):
            commit(left, store)

    def check() -> None:
        StateFolder(STATE).close()
        runs.append(whole(store))
        results = [name for name in store.names("bucket://out/") if name.startswith("run")]
        assert results == (["run-2"] if runs[-1] == 2 else [])
        assert f"{STATE}/commit.json" not in store.objects

    at_each_operation(store, killed, done, check)
    assert sorted(set(runs)) == [1, 2]
    assert runs == sorted(runs), "from one moment on it counts"


def test_a_commit_that_was_written_down_behind_another_one_is_left_out(store: Store) -> None:
    one, other = two_under_way(store)
    other.prepare()
    journal = store.objects.pop(f"{STATE}/commit.json")
    assert commit(one, store)
    committed = store.objects[f"{STATE}/manifest.json"]
    store.put(f"{STATE}/commit.json", journal)  # of a process that stood still
    StateFolder(STATE).close()
    assert store.objects[f"{STATE}/manifest.json"] == committed
    assert f"{STATE}/commit.json" not in store.objects


@pytest.mark.usefixtures("of_other_processes")
def test_a_run_of_which_any_file_is_gone_counts_for_nothing(store: Store) -> None:
    run(ONE)
    folder = under_way(TWO)
    present = dict(store.objects)
    files = [path for path in present if path.startswith(f"{STATE}/{folder._attempt}/")]
    assert {path.rpartition(".")[2] for path in files} >= {"arrow", "json"}
    for path in files:
        store.objects = {each: content for each, content in present.items() if each != path}
        refused = pytest.raises(
            StateRefused, match=f"files that this run has written to {STATE} are gone: this one counts for nothing"
        )
        with refused, copy.deepcopy(folder) as again:
            again.commit()
        assert whole(store) == 1


@pytest.mark.usefixtures("of_other_processes")
def test_workers_that_do_not_reach_the_folder_are_told(store: Store) -> None:
    def elsewhere(operation: str, path: str) -> None:
        if operation == "exists" and path.endswith("/begun"):
            store.objects.pop(path)

    refused = pytest.raises(Exception, match="all workers must reach the folder of a state by the same path")
    with store.before(elsewhere), refused:
        run(ONE)
    assert store.names(f"{STATE}/") == []


def test_behind_a_commit_goes_what_runs_up_to_it_have_left_and_nothing_of_a_later_one(store: Store) -> None:
    run(ONE)
    under_way(TWO)  # killed
    later = f"{STATE}/runs/000003-of-another/000-00000-a.arrow"
    store.put(later, b"")
    run(TWO)
    manifest = read_manifest(store.objects[f"{STATE}/manifest.json"].decode(), "")
    assert {*store.names(f"{STATE}/")} == {"manifest.json", later.removeprefix(f"{STATE}/"), *manifest.files}


@pytest.mark.parametrize("place", [STATE, "{}/state"])
def test_what_readers_write_down_for_a_run_goes_with_it(store: Store, tmp_path: Path, place: str) -> None:
    for is_committed in (False, True):
        with under_way(ONE, at=place.format(tmp_path)) as folder:
            stored_files.write_whole(f"{folder.scratch}/topics/a/1.jsonl", b"{}")
            if is_committed:
                folder.commit()
        below = store.names(f"{STATE}/runs/") or [str(path) for path in tmp_path.rglob("runs/*/*")]
        assert [name for name in below if not name.endswith(".arrow")] == []
        assert bool(below) is is_committed


def test_a_run_that_fails_leaves_the_store_as_it_was(store: Store) -> None:
    run(ONE)
    present = dict(store.objects)
    with pytest.raises(ZeroDivisionError), under_way(TWO):
        raise ZeroDivisionError
    assert store.objects == present


def test_a_pipeline_whose_run_has_failed_may_run_again_with_other_records(store: Store) -> None:
    pipeline = beam.Pipeline(
        runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={STATE}", "--beam_joins_partitions=8"])
    )
    read = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: GIVEN).with_output_types(dict)
    _ = (
        read
        | "table" >> TableFromChangelog(key="id", sequence_by="at", timestamp_by="at")
        | LatestTable()
        | beam.Reshuffle()
        | beam.Map(see)
    )
    GIVEN[:] = [TWO, THREE, {"id": REFUSED, "at": 4}]
    with pytest.raises(Exception, match="a row that is refused"):
        pipeline.run()
    assert store.names(f"{STATE}/") == []
    GIVEN[:] = [TWO]
    pipeline.run().wait_until_finish()
    assert whole(store) == 1
    assert run(THREE) == [2, 3]


@pytest.mark.parametrize(
    ("operation", "ending", "error", "kind", "message"),
    [
        ("upload", "commit.json", Forbidden, OutputError, f"cannot write {STATE}/commit.json: no"),
        ("open", "manifest.json", Forbidden, OSError, f"no.*{STATE}/manifest.json"),
        ("open", ".arrow", Forbidden, StateRefused, r"a file of the state cannot be read: .*no"),
        ("open", ".arrow", NotFound, CorruptData, r"a file of the state is gone: .*it is gone"),
    ],
)
def test_what_the_store_says_is_one_sentence(
    store: Store, operation: str, ending: str, error: type[Exception], kind: type[Exception], message: str
) -> None:
    run(ONE)
    before = store.objects[f"{STATE}/manifest.json"]
    with pytest.raises(Exception, match=message) as raised, store.failing(operation, ending, lambda: error("no\nat all")):
        run(TWO)
    assert isinstance(raised.value, kind) or kind.__name__ in str(raised.value)
    assert store.objects[f"{STATE}/manifest.json"] == before


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--template_location", "gs://a/b"),
        ("--dry_run", "True"),
        ("--output_executable_path", "a.jar"),
        ("--runner", "apache_beam.runners.render.RenderRunner"),
    ],
)
def test_a_pipeline_that_is_not_run_now_is_refused_and_makes_no_state(store: Store, option: str, value: str) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([f"--beam_joins_state={STATE}", f"{option}={value}"]))
    with pytest.raises(StateRefused, match=rf"^{option}\S* runs nothing now"):
        latest(pipeline, ONE)
    assert store.objects == {}


class WithoutAJob(FnApiRunner):
    """A runner whose result is done before anything has begun, as that of a template."""

    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        result = super().run_pipeline(pipeline, options)
        result.has_job = False
        return result


def test_a_result_without_a_job_commits_nothing(store: Store) -> None:
    options = PipelineOptions([f"--beam_joins_state={STATE}"])
    with pytest.raises(StateRefused, match="nothing has run"), beam.Pipeline(runner=WithoutAJob(), options=options) as pipeline:
        latest(pipeline, ONE)
    assert store.objects == {}


def test_a_folder_may_end_with_a_slash(store: Store) -> None:
    run(ONE)
    with StateFolder(f"{STATE}/") as folder:
        assert folder.run == 2


def test_a_store_that_does_not_answer_is_refused_within_seconds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()
    monkeypatch.setattr(reachability, "SECONDS", 0.05)
    refused = pytest.raises(Unavailable, match=f"{STATE} cannot be reached: nothing has answered within")
    with store.before(lambda operation, path: ends.wait() and None), refused:
        StateFolder(STATE)
    ends.set()
    with pytest.raises(StateRefused, match="bucket://nowhere/s cannot be reached: there is no bucket nowhere"):
        StateFolder("bucket://nowhere/s")
    with pytest.raises(StateRefused, match="there-is/none cannot be reached: Beam has no file system for nothing://"):
        StateFolder("nothing://there-is/none")
