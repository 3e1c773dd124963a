"""The folder of --beam_joins_state: what is refused, what survives, what is left alone."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_joins import CountTable, ForeignKeyJoin, TableFromChangelog, TableToChanges
from beam_joins.coders import CorruptData
from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.resumed import state_files, state_parts
from beam_joins.transforms.engine.resumed.manifest import FORMAT, read_manifest
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.turns import parts as engine_parts
from tests.transforms import resumed_jobs
from tests.transforms.resumed_jobs import history, lines_of, parts, run

ROOT = Path(__file__).parents[2]
RECORDS = history(7)
FIRST, SECOND = parts(RECORDS, [30])
FEW = ["--beam_joins_partitions=3"]


def manifest(state):
    return read_manifest((state / "manifest.json").read_text(), "manifest.json")


def files(state):
    return {path: path.stat().st_mtime_ns for path in (state / "runs").rglob("*") if path.is_file()}


@pytest.fixture
def state(tmp_path):
    """A folder after one run of the inner join."""
    run("inner", FIRST, tmp_path / "out", state=tmp_path / "state", options=FEW)
    return tmp_path / "state"


def pipeline(state, *options):
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([f"--beam_joins_state={state}", *options]))


def counted(rows, state, *options, by="by", label="counts", **plan):
    with pipeline(state, *options) as p:
        read = p | beam.Create(rows) | "table" >> TableFromChangelog(**{"key": "id", "sequence_by": "at", **plan})
        _ = read | label >> CountTable(group_by=by)


ROWS = [{"id": 1, "by": "a", "other": "b", "at": 1}]
LATER = [{"id": 2, "by": "a", "other": "b", "at": 2}]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"by": "other"},
            r"counts \(CountTable\): group_by was 'by' and is 'other': with --beam_joins_changed=rebuild it is made anew",
        ),
        (
            {"key": ["id"]},
            r"table \(TableFromChangelog\): key was 'id' and is .* --beam_joins_read_again=table, .*\n  counts .* behind table",
        ),
        ({"label": "totals"}, r"totals \(CountTable\): it is new: .*\n  counts is gone: with .* its state is forgotten"),
    ],
)
def test_another_pipeline_is_refused_before_it_runs_and_the_folder_is_as_it_was(inputs, message, tmp_path):
    counted(ROWS, tmp_path)
    before = manifest(tmp_path)
    with pytest.raises(StateRefused, match=message):
        counted(LATER, tmp_path, **inputs)
    assert manifest(tmp_path) == before
    counted(LATER, tmp_path)
    assert manifest(tmp_path).run == 2


def test_a_transform_that_is_new_is_refused(tmp_path):
    counted(ROWS, tmp_path)
    refused = pytest.raises(StateRefused, match=r"more \(CountTable\): it is new: with .* it is made anew")
    with refused, pipeline(tmp_path) as p:
        table = p | beam.Create(LATER) | "table" >> TableFromChangelog(key="id", sequence_by="at")
        _ = [table | label >> CountTable(group_by="by") for label in ("counts", "more")]


def test_another_type_of_key_is_refused(tmp_path):
    def changes(row, key_type):
        with pipeline(tmp_path) as p:
            pairs = p | beam.Create([row]).with_output_types(tuple[key_type, int])
            _ = pairs | "table" >> TableFromChangelog(timestamp_by=_second)

    changes(("a", 1), str)
    with pytest.raises(StateRefused, match=r"table \(TableFromChangelog\): key coder of the input was str and is int"):
        changes((2, 2), int)


def _second(pair):
    return pair[1]


def test_the_number_of_partitions_is_that_of_the_run_before(state, tmp_path):
    assert manifest(state).partitions == 3
    run("inner", SECOND, tmp_path / "out", state=state)
    assert manifest(state).partitions == 3
    run("inner", RECORDS, tmp_path / "whole")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "whole")


def test_a_folder_in_use_is_refused(state, tmp_path):
    refused = pytest.raises(StateRefused, match="is in use by another run: wait for its end, or give each its own folder")
    with StateFolder(str(state)), refused:
        run("inner", SECOND, tmp_path / "out", state=state)
    run("inner", SECOND, tmp_path / "out", state=state)


def test_a_pipeline_that_was_built_before_another_run_ended_is_refused(state, tmp_path):
    def built():
        p = pipeline(state)
        resumed_jobs.JOBS["inner"](p, SECOND)
        return p

    one, other = built(), built()
    one.run().wait_until_finish()
    with pytest.raises(StateRefused, match="another run has been committed to .* since this pipeline was built: build it again"):
        other.run()


def test_a_run_that_fails_leaves_the_folder_as_it_was(state, tmp_path):
    before, present = manifest(state), files(state)
    with pytest.raises(Exception, match="no good"), pipeline(state) as p:
        (table,) = resumed_jobs.JOBS["inner"](p, SECOND)
        _ = table | beam.Map(_raise)
    assert manifest(state) == before
    assert files(state) == present
    run("inner", SECOND, tmp_path / "out", state=state)


def _raise(change):
    raise ValueError("no good")


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_file_that_is_not_as_it_was_written_is_named(harm, state, tmp_path):
    for path in files(state):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        harmed = {"flip": content, "cut": content[:-7], "remove": b""}[harm]
        path.unlink() if harm == "remove" else path.write_bytes(harmed)
    with pytest.raises(CorruptData, match=r"^runs/000001-\w+/\d{3}-\d{5}-\w+\.arrow: a file of the state"):
        run("inner", SECOND, tmp_path / "out", state=state)


def test_a_process_reads_the_whole_of_a_file_once_as_long_as_it_is_the_same(tmp_path, monkeypatch):
    whole = []
    monkeypatch.setattr(state_files, "xxh3_64_hexdigest", lambda content: whole.append(bytes(content)) or f"of {len(whole)}")
    files = state_files.StateFiles(str(tmp_path))
    checksum = lambda: files.checksum("a.arrow", files.get("a.arrow"))  # noqa: E731
    files.put("a.arrow", b"rows")
    assert [checksum(), checksum()] == ["of 1", "of 1"]
    with (tmp_path / "a.arrow").open("r+b") as file:  # in its place, and of the same size
        file.write(b"r0ws")
    os.utime(tmp_path / "a.arrow", ns=(7, 7))  # the clock of a filesystem may be a coarse one
    assert [checksum(), checksum()] == ["of 2", "of 2"]
    files.put("a.arrow", b"")
    assert [checksum(), checksum()] == ["of 3", "of 3"]
    assert whole == [b"rows", b"r0ws", b""]


def test_a_manifest_that_is_not_as_it_was_written_is_refused(state, tmp_path):
    path = state / "manifest.json"
    content = path.read_text()
    for harmed in (content.replace('"frontier": 29', '"frontier": 28'), content[:-9], "[]"):
        path.write_text(harmed)
        with pytest.raises(CorruptData, match="manifest.json"):
            run("inner", SECOND, tmp_path / "out", state=state)
    path.write_text(content.replace(f'"format": {FORMAT}', '"format": 99'))
    with pytest.raises(StateRefused, match=f"has format 99, and this version reads formats up to {FORMAT}: update beam_joins"):
        run("inner", SECOND, tmp_path / "out", state=state)


def test_a_number_of_partitions_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--beam_joins_partitions=0: give a positive whole number"):
        counted(ROWS, tmp_path, "--beam_joins_partitions=0")


def test_partitions_without_rows_are_not_touched(tmp_path):
    rows = [{"id": n, "by": "a", "at": n} for n in range(200)]
    counted(rows, tmp_path, "--beam_joins_partitions=16")
    present = files(tmp_path)
    counted([{"id": 7, "by": "a", "at": 1_000}], tmp_path)
    stay = {path: time for path, time in files(tmp_path).items() if path in present}
    assert len(stay) > 10
    assert stay == {path: present[path] for path in stay}
    assert len(files(tmp_path).keys() - present.keys()) < 5
    # a run without rows changes nothing but the number of the run
    present = files(tmp_path)
    counted([], tmp_path)
    assert files(tmp_path) == present
    assert manifest(tmp_path).run == 3


@pytest.mark.slow
def test_no_file_stays_that_the_manifest_does_not_name(tmp_path):
    for cut in range(0, 60, 10):
        run("inner", [each for each in RECORDS if cut <= each[1]["at"] < cut + 10], tmp_path / "out", state=tmp_path / "state")
        assert {str(path.relative_to(tmp_path / "state")) for path in files(tmp_path / "state")} == manifest(tmp_path / "state").files
    assert sorted(os.listdir(tmp_path / "state")) == ["lock", "manifest.json", "runs"]


def test_the_frontier_is_that_of_all_transforms_that_are_connected(tmp_path):
    with pipeline(tmp_path) as p:
        logs = {
            name: p | f"{name} log" >> beam.Create([{"id": 1, "by": 1, "at": at}])
            for name, at in (("one", 5), ("two", 9), ("three", 7))
        }
        tables = {name: log | name >> TableFromChangelog(key="id", sequence_by="at") for name, log in logs.items()}
        joined = (tables["one"], tables["two"]) | "join" >> ForeignKeyJoin(resumed_jobs.both, foreign_key="by")
        _ = joined | TableToChanges()
    frontiers = {label: each.frontier for label, each in manifest(tmp_path).stages.items()}
    assert frontiers.pop("three/Replay") == 7
    assert set(frontiers.values()) == {9}
    assert {label.split("/")[0] for label in frontiers} == {"one", "two", "join"}


def test_late_records_are_applied_or_reported_however_many_partitions_there_are(tmp_path):
    log = [(1, "a", 10), (2, "b", 11), (3, None, 12)]
    late = [(1, "old", 9), (2, "new", 11), (4, "four", 3), (3, "gone", 2), (1, "next", 20)]
    seen = []
    for partitions in (1, 7):
        out = tmp_path / f"out {partitions}"
        for rows in (log, late):
            with pipeline(tmp_path / str(partitions), f"--beam_joins_partitions={partitions}") as p:
                read = p | beam.Create([{"id": key, "value": value, "at": at} for key, value, at in rows])
                plan = TableFromChangelog(key="id", sequence_by="at", timestamp_by="at", apply_as_deletes=_without_value)
                table, dropped = read | plan.with_outputs()
                _ = (
                    table
                    | TableToChanges()
                    | beam.Map(lambda change: (change.key, change.new and change.new["value"], change.position))
                    | ("changes" >> beam.ParDo(resumed_jobs.Lines(out, timed=False)))
                )
                _ = (
                    dropped
                    | beam.Map(lambda each: (each.reason, each.record[0]))
                    | "late" >> beam.ParDo(resumed_jobs.Lines(out, timed=False))
                )
        seen.append(lines_of(out))
    assert seen[0] == seen[1]
    assert [line.strip() for line in seen[0]] == sorted(
        [
            "(1, 'a', 10)",
            "(2, 'b', 11)",
            "(4, 'four', 13)",
            "(1, 'next', 20)",
            "('late_applied', 4)",
            "('late_stale', 1)",
            "('late_stale', 2)",
            "('late_stale', 3)",
        ]
    )


def _without_value(row):
    return row["value"] is None


@pytest.mark.parametrize(("seconds", "reason"), [(100, "late_stale"), (10, "late_applied")])
def test_deletes_are_remembered_as_long_as_the_option_says(seconds, reason, tmp_path):
    out = tmp_path / "out"
    # the delete of row 1 is 50 seconds older than the latest record; a record that comes late is 5 seconds
    # older
    for rows in ([(1, "a", 0), (1, None, 50), (2, "b", 100)], [(1, "late", 49, 95)]):
        with pipeline(tmp_path / "state", f"--beam_joins_remember_deletes={seconds}") as p:
            log = [
                {"id": key, "value": value, "at": at, "time": 1_000_000 * (time[0] if time else at)} for key, value, at, *time in rows
            ]
            plan = TableFromChangelog(key="id", sequence_by="at", timestamp_by="time", apply_as_deletes=_without_value)
            _, dropped = p | beam.Create(log) | plan.with_outputs()
            _ = dropped | beam.Map(lambda each: each.reason) | beam.ParDo(resumed_jobs.Lines(out, timed=False))
    assert lines_of(out) == [f"{reason!r} \n"]


def test_a_record_far_ahead_in_time_keeps_no_new_row_from_the_table_in_any_number_of_partitions(tmp_path):
    far = 30_000 * 86_400 * 1_000_000
    runs = [
        [(1, "a", 10), (2, "b", 11), (9, "far", far)],
        [(3, "c", 12), (1, None, 13)],
        [(1, "again", 14), (4, "d", 15), (5, "before the delete", 12)],
    ]
    for partitions in (1, 3):
        out = tmp_path / f"out {partitions}"
        for rows in runs:
            with pipeline(tmp_path / str(partitions), f"--beam_joins_partitions={partitions}") as p:
                read = p | beam.Create([{"id": key, "value": value, "at": at} for key, value, at in rows])
                plan = TableFromChangelog(key="id", sequence_by="at", timestamp_by="at", apply_as_deletes=_without_value)
                _, dropped = read | plan.with_outputs()
                told = dropped | beam.Map(lambda each: (each.record[0], each.record[1] and each.record[1]["value"], each.reason))
                _ = told | beam.ParDo(resumed_jobs.Lines(out, timed=False))
        assert [line.strip() for line in lines_of(out)] == [
            "(1, 'again', 'late_applied')",
            "(1, None, 'late_applied')",
            "(3, 'c', 'late_applied')",
            "(4, 'd', 'late_applied')",
            "(5, 'before the delete', 'late_stale')",
        ]


def test_kinds_of_keys_that_never_meet_are_found_across_runs(tmp_path):
    def joined(left, right):
        with pipeline(tmp_path) as p:
            tables = [
                p | f"{n}" >> beam.Create(rows) | f"table {n}" >> TableFromChangelog(key="id", sequence_by="at")
                for n, rows in enumerate((left, right))
            ]
            _ = tuple(tables) | ForeignKeyJoin(resumed_jobs.both, foreign_key="by")

    joined([{"id": 1, "by": "7", "at": 1}], [])
    with pytest.raises(Exception, match="the foreign keys are of kind text, the right table's keys of kind number"):
        joined([], [{"id": 7, "at": 2}])


def test_a_commit_renames_files_of_its_own_and_one_that_was_cut_off_is_finished_by_whoever_opens_the_folder(tmp_path):
    for cut_off, piece in enumerate((FIRST, SECOND)):
        with StateFolder(str(tmp_path / "state")) as folder:
            assert (folder.run, folder.is_new) == (cut_off + 1, not cut_off)
            assert dict(folder.inputs) == ({"first": 7} if cut_off else {})
            with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(FEW)) as p:
                folder.attach(p)
                (made,) = resumed_jobs.JOBS["inner"](p, piece)
                _ = made | TableToChanges() | beam.ParDo(resumed_jobs.Lines(tmp_path / "part", timed=False))
            folder.inputs["second" if cut_off else "first"] = 7
            moves = [(str(tmp_path / "part"), str(tmp_path / f"out {cut_off}"))]
            if not cut_off:
                folder.commit(moves)
            else:
                folder.prepare(moves)
    assert manifest(tmp_path / "state").run == 1
    assert not (tmp_path / "out 1").exists()
    journal = (tmp_path / "state" / "commit.json").read_text()
    for _ in range(2):  # it may be cut off again, between the renames and the manifest
        with StateFolder(str(tmp_path / "state")) as folder:
            assert (folder.run, dict(folder.inputs)) == (3, {"first": 7, "second": 7})
        assert not (tmp_path / "state" / "commit.json").exists()
        (tmp_path / "state" / "commit.json").write_text(journal)
    run("inner", RECORDS, tmp_path / "whole")
    assert sorted(lines_of(tmp_path / "out 0") + lines_of(tmp_path / "out 1")) == lines_of(tmp_path / "whole")


def test_a_folder_that_is_left_without_a_commit_is_as_it_was(state):
    before, present = manifest(state), files(state)
    with StateFolder(str(state)) as folder, beam.Pipeline(runner=FnApiRunner()) as p:
        folder.attach(p)
        resumed_jobs.JOBS["inner"](p, SECOND)
    assert manifest(state) == before
    assert files(state) == present


TO_KILL = {
    "in one part": (RECORDS, 30, FEW),
    "in several parts": (history(11, 1_500, rows=400), 700, ["--beam_joins_partitions=1", "--beam_joins_memory=1"]),
}


def run_to_kill(state_is, number, out, state):
    """A run of a process of its own."""
    records, cut, options = TO_KILL[state_is]
    if state_is == "in several parts":
        engine_parts.TURN_FACTOR, state_parts._SHARE = (1 << 20) // 3_000, (1 << 20) // 6_000
    run("opaque chain", parts(records, [cut])[int(number)], out, state=state, options=options)


@pytest.mark.process
@pytest.mark.parametrize("state_is", ["in one part", pytest.param("in several parts", marks=pytest.mark.sweep)])
def test_a_run_that_is_killed_at_any_moment_and_done_again_gives_the_same(state_is, tmp_path):
    records, cut, _ = TO_KILL[state_is]
    pieces = parts(records, [cut])
    run("opaque chain", records, tmp_path / "whole")
    script = "import sys; from tests.transforms.test_state_folder import run_to_kill; run_to_kill(*sys.argv[1:])"
    state, draw = tmp_path / "state", random.Random(1)
    for n in range(len(pieces)):
        killed = 0
        for _ in range(20):
            out = tmp_path / f"out {n}"
            out.unlink(missing_ok=True)
            present = set(state.glob("runs/*/*"))
            process = subprocess.Popen([sys.executable, "-c", script, state_is, str(n), out, state], cwd=ROOT)
            if not killed:
                # most moments are those of imports: wait until the run has begun to write
                while process.poll() is None and not out.exists() and set(state.glob("runs/*/*")) == present:
                    time.sleep(0.005)
                time.sleep(draw.random() * 0.3)
                process.send_signal(signal.SIGKILL)
                killed += 1
            process.wait()
            if (state / "manifest.json").exists() and manifest(state).run == n + 1:
                break
            assert process.returncode == -signal.SIGKILL
        else:
            pytest.fail("twenty runs, of which one was killed, did not end")
    counts = {len(places) for each in manifest(state).stages.values() for places in each.partitions.values()}
    assert max(counts) > 1 if state_is == "in several parts" else counts == {1}
    assert sorted(line for n in range(len(pieces)) for line in lines_of(tmp_path / f"out {n}")) == lines_of(tmp_path / "whole")
    # the last run may have been killed behind its commit: the next one removes what it has replaced
    run("opaque chain", [], tmp_path / "nothing", state=state, options=TO_KILL[state_is][2])
    assert {str(path.relative_to(state)) for path in files(state)} == manifest(state).files


@pytest.mark.slow
def test_the_folder_may_lie_on_any_filesystem_of_beam(tmp_path):
    shutil.rmtree(Remote.root, ignore_errors=True)
    for piece in parts(RECORDS, [20, 40]):
        run("typed chain", piece, tmp_path / "out", state="remote://state/here", options=FEW)
    run("typed chain", RECORDS, tmp_path / "whole")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "whole")


class Remote(LocalFileSystem):
    """A filesystem whose files are neither mapped nor locked."""

    root = tempfile.mkdtemp()

    @classmethod
    def scheme(cls):
        return "remote"

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def _path(self, url):
        return os.path.join(self.root, url.removeprefix("remote://"))

    def create(self, path, *rest, **options):
        return super().create(self._path(path), *rest, **options)

    def open(self, path, *rest, **options):
        return super().open(self._path(path), *rest, **options)

    def exists(self, path):
        return super().exists(self._path(path))

    def delete(self, paths):
        for path in paths:
            os.remove(self._path(path))

    def match(self, patterns, limits=None):
        actual = super().match([self._path(pattern) for pattern in patterns], limits)
        for result in actual:
            for file in result.metadata_list:
                file.path = f"remote://{os.path.relpath(file.path, self.root)}"
        return actual
