"""``beam-joins state``: the folder of incremental runs and rows of it are shown, verified and copied."""

import json
import os
import shutil
from pathlib import Path

import pytest

from beam_joins import CorruptData, StateFolder, StateRefused
from beam_joins.transforms.engine.resumed import state_summary
from tests.pipelines.orders_run import Run, write

ROWS = [{"id": n, "name": f"n{n}", "op": "c", "lsn": n, "updated_at": n} for n in range(1, 6)]


def table(beam_joins: Run, number: int, state: str = "state") -> str:
    """One run more over one file more; gives the final rows."""
    Path("rows").mkdir(exist_ok=True)
    write(f"rows/{number}.jsonl", *({**row, "id": 10 * number + row["id"], "lsn": 10 * number + row["lsn"]} for row in ROWS))
    ran = beam_joins("table", "--input", "rows", "--state-dir", state, "--changes", "out/*.jsonl", "--latest", "latest.jsonl")
    assert ran.code == 0, ran.err
    return Path("latest.jsonl").read_text()


def test_the_state_is_shown_with_its_inputs_rows_and_bytes(beam_joins: Run) -> None:
    for number in range(2):
        table(beam_joins, number)
    ran = beam_joins("state", "show", "state")
    assert (ran.code, ran.err) == (0, "")
    run, files, label, rows, _, _, together = ran.out.splitlines()
    assert run.startswith("run          2, in ")
    assert files == "input        rows: 2 files read"
    assert label == "Rows/Table/Replay  TableFromChangelog"
    assert "10 rows, " in rows
    assert rows.endswith("up to position 15, latest event 1970-01-01T00:00:00.000005Z")
    size = sum(path.stat().st_size for path in Path("state").rglob("*.arrow"))
    assert together == f"together     20 rows, {size:,} bytes"  # LatestTable has the rows of the table too


def test_rows_of_a_transform_are_shown_as_a_table_by_their_keys(beam_joins: Run) -> None:
    for number in range(2):
        table(beam_joins, number)
    shown = beam_joins("state", "rows", "state", "--transform", "Rows/Table", "--key", "13", "--key", "2")
    label, names, *rows = shown.out.splitlines()
    assert (label, names.split()) == ("Rows/Table/Replay, rows", ["key", "timestamp", "position", "value"])
    assert sorted(row.split(maxsplit=3) for row in rows) == [
        ["13", "1970-01-01T00:00:00.000003Z", "13", '{"id":13,"name":"n3","updated_at":3}'],
        ["2", "1970-01-01T00:00:00.000002Z", "2", '{"id":2,"name":"n2","updated_at":2}'],
    ]
    assert beam_joins("state", "rows", "state", "--transform", "Latest", "--key", "99").out == "no row of Latest has the key 99\n"
    *_, last = beam_joins("state", "rows", "state", "--transform", "Latest", "--limit", "3").out.splitlines()
    assert last == "more than 3 rows: --limit shows more, --key those of a key"
    assert len(beam_joins("state", "rows", "state", "--transform", "Latest").out.splitlines()) == 2 + 10


def test_a_key_of_several_columns_and_typed_rows_are_shown(beam_joins: Run) -> None:
    write("rows.jsonl", *({**row, "part": f"p{row['id'] % 2}"} for row in ROWS))
    ran = beam_joins("table", "--input=rows.jsonl", "--key=part,id", "--state-dir=state", "--latest=latest.parquet")
    assert ran.code == 0, ran.err
    (_, _, row) = beam_joins("state", "rows", "state", "--transform=Latest", "--key=p1,3").out.splitlines()
    assert row.split()[0] == '{"part":"p1","id":3}'
    assert row.endswith('{"id":3,"name":"n3","updated_at":3,"part":"p1"}')


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rows", "state"], "give --transform, the label of a transform as "),
        (["rows", "state", "--transform=Nothing"], "has no transform 'Nothing': it has Rows/Table, Latest"),
        (["rows", "state", "--transform=Latest", "--limit=0"], "--limit 0: give a number above 0"),
        (["show", "state", "--key=1"], "--key is for rows: leave it out"),
        (["rows", "state", "other", "--transform=Latest"], "rows takes one folder: leave other out"),
    ],
)
def test_options_of_rows_that_are_wrong_or_missing_are_one_sentence(beam_joins: Run, arguments: list[str], says: str) -> None:
    table(beam_joins, 0)
    ran = beam_joins("state", *arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert says in ran.err


def test_a_copy_goes_on_where_the_state_was_copied_and_the_state_too(beam_joins: Run) -> None:
    table(beam_joins, 0)
    ran = beam_joins("state", "copy", "state", "copied")
    assert ran.out.startswith("run 1 copied to copied: ")
    rows = table(beam_joins, 1)
    shutil.move("out/000002.jsonl", "2.jsonl")
    assert table(beam_joins, 1, "copied") == rows
    assert Path("out/000002.jsonl").read_text() == Path("2.jsonl").read_text()


def test_each_file_that_is_missing_or_has_changed_is_named(beam_joins: Run) -> None:
    table(beam_joins, 0)
    files = sorted(Path("state").rglob("*.arrow"))
    assert beam_joins("state", "check", "state").out == f"{len(files)} files as written\n"
    content = bytearray(files[0].read_bytes())
    content[len(content) // 2] ^= 1
    files[0].write_bytes(content)
    files[1].unlink()
    ran = beam_joins("state", "check", "state")
    assert (ran.code, ran.out) == (1, "")
    assert all(path.name in ran.err for path in files[:2])
    assert "its checksum is another" in ran.err
    with pytest.raises(CorruptData):
        StateFolder.copy("state", "copied")
    assert not Path("copied/manifest.json").exists()


def test_a_copy_beside_a_run_is_that_of_one_run(beam_joins: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    table(beam_joins, 0)
    copied, runs = state_summary._copied, iter([1])

    def after_a_run(*arguments: object) -> str:
        for number in runs:
            before = set(Path("state").rglob("*.arrow"))
            table(beam_joins, number)
            for path in before:  # as if each had been merged with others
                path.unlink(missing_ok=True)
            shutil.rmtree("state")
            os.rename("afterwards", "state")
        return copied(*arguments)  # type: ignore[arg-type]

    shutil.copytree("state", "afterwards")
    table(beam_joins, 1, "afterwards")
    shutil.rmtree("out")
    monkeypatch.setattr(state_summary, "_copied", after_a_run)
    assert StateFolder.copy("state", "copied").run == 2
    assert StateFolder.verify("copied") == len(list(Path("state").rglob("*.arrow")))


def test_what_is_no_state_or_is_being_committed_is_refused(beam_joins: Run) -> None:
    assert beam_joins("state", "show", "nowhere").err.endswith("nowhere has no state: no run with this folder has ended\n")
    table(beam_joins, 0)
    Path("state/commit.json").write_text(json.dumps({}))
    with pytest.raises(StateRefused, match="a run is being committed to .*state: copy it again"):
        StateFolder.copy("state", "copied")
    Path("state/commit.json").unlink()
    ran = beam_joins("state", "copy", "state", "state")
    assert (ran.code, ran.err.partition(": ")[2]) == (2, f"{os.path.abspath('state')} has a state: name another folder\n")
    assert beam_joins("state", "copy", "state").err.endswith("copy needs a second folder\n")
    assert beam_joins("state", "show", "state", "other").err.endswith("show takes one folder: leave other out\n")
