"""Pages with commands are executed from top to bottom: files are written, commands run, and what they show is what comes out.

The buckets of a page are those of the tests' own object store.
"""

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from beam_joins.pipelines import demo
from beam_joins.pipelines.base.paths import absolute
from beam_joins.pipelines.commands import programs
from beam_joins.pipelines.runners.local import local_runner
from beam_joins.transforms.connect.files import read_whole, write_whole
from tests.docs.page import DOCS, blocks
from tests.object_store import Store

PAGES = {"tutorial.md": (3, 5), "command_line.md": (5, 8), "in_the_cloud.md": (1, 1)}
"""How many commands each page has, and how much of what comes out it shows."""
INSTALL = ("python3.11 -m venv", "pip install")
NIGHTS = {  # a customer is renamed, one removed, and one comes back
    "2026-03-04": ("1,Ann\n2,Bob\n", {1: "Ann", 2: "Bob", 3: None}),
    "2026-03-05": ("1,Anna\n3,Cy\n", {1: "Anna", 2: None, 3: "Cy"}),
    "2026-03-06": ("2,Bob\n1,Anna\n3,Cy\n", {1: "Anna", 2: "Bob", 3: "Cy"}),
}
SECONDS = re.compile(r"^(  (?:start-up|starting the runner|run|finishing|all) +|.*; )[\d.]+( s)?$", re.MULTILINE)
BUCKET = re.compile(r"gs://shop-(?=\w+/)")
NAMED = re.compile(r"`([\w.:/-]+\.(?:jsonl|csv|toml|py|sql))`")


@pytest.mark.parametrize("name", PAGES)
def test_what_the_page_shows_is_what_the_commands_give(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: Store
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_runner, "usable_cores", lambda: 1)  # the print of workers is not captured
    page = DOCS / name
    lines = page.read_text(encoding="utf-8").splitlines()
    commands = shown = 0
    printed = ""
    for block in blocks(page):
        above = "\n".join(lines[: block.line - 1]).rstrip().rpartition("\n\n")[2]
        if block.text.startswith(INSTALL):
            continue
        text = BUCKET.sub("bucket://", block.text)
        if block.language == "sh":
            program, *arguments = shlex.split(text.replace("\\\n", ""))
            if program == "python":
                runpy.run_path(*arguments)
            else:
                assert (program, programs.main(arguments)) == ("beam-joins", 0)
            printed, _ = capsys.readouterr()
            commands += 1
        elif block.language == "text":
            assert SECONDS.sub(r"\1", printed.strip()) == SECONDS.sub(r"\1", block.text.strip())
            shown += 1
        elif (content := read_whole(path := BUCKET.sub("bucket://", NAMED.findall(above)[-1]))) is not None:
            assert sorted(content.decode().splitlines()) == sorted(text.splitlines())
            shown += 1
        else:
            write_whole(absolute(path), text.encode())
    assert (commands, shown) == PAGES[name]


def test_the_demo_writes_the_files_of_the_tutorial_and_makes_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [block.text for block in blocks(DOCS / "tutorial.md")]
    assert [text for text in demo.FILES.values() if text not in shown] == []
    assert programs.main(["demo", "folder"]) == 0
    assert Path().absolute() == tmp_path / "folder"
    said = capsys.readouterr().out
    assert all(f"\n{Path(name).read_text()}" in said for name in ("now.jsonl", "changes/changes-000001.jsonl"))
    assert Path("changes/changes-000001.jsonl").read_text() in shown
    (move, again) = [line.removeprefix("$ ") for line in said.splitlines() if line.startswith("$ ")][-2:]
    Path(shlex.split(move)[1]).rename(shlex.split(move)[2])
    assert programs.main(["join", *shlex.split(again.partition("join ")[2])]) == 0
    assert Path("now.jsonl").read_text() in shown
    monkeypatch.chdir(tmp_path)
    assert programs.main(["demo", "folder"]) == 2
    assert "folder is there already: name another folder, or remove it" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "results"), [(0, ["changes.jsonl", "now.jsonl"]), (1, ["table.jsonl"]), (2, ["delays.jsonl"])])
def test_a_program_of_the_page_writes_the_bytes_of_the_command_above_it(
    number: int, results: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_engine: None
) -> None:
    shown = list(blocks(DOCS / "command_line.md"))
    command = [block.text for block in shown if block.language == "sh"][number].replace("\\\n", "")
    inputs = {"flights.jsonl": shown[0].text, "planes.csv": shown[1].text}
    _require_same_bytes(command, _programs()[number], inputs, results, tmp_path, monkeypatch)


def test_the_program_of_the_page_for_the_sample_writes_the_bytes_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_engine: None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert programs.main(["sample", "--orders", "2000", "--out", "sample-data"]) == 0
    inputs = {f"sample-data/{name}.jsonl": Path(f"sample-data/{name}.jsonl").read_text() for name in ("orders", "customers")}
    results = [f"orders-out/{name}.jsonl" for name in ("enriched", "latest")]
    _require_same_bytes("beam-joins orders", _programs()[3], inputs, results, tmp_path, monkeypatch)


def _programs() -> list[str]:
    return [block.text for block in blocks(DOCS / "command_line.md") if block.language == "py"]


def _require_same_bytes(
    command: str, program: str, inputs: dict[str, str], results: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write the same files, which have something."""
    written = list[list[bytes]]()
    for run in (lambda: programs.main(shlex.split(command)[1:]), lambda: exec(compile(program, "program.py", "exec"), {})):
        of_run = folder / str(len(written))
        for name, text in inputs.items():
            (of_run / name).parent.mkdir(parents=True, exist_ok=True)
            (of_run / name).write_text(text)
        monkeypatch.chdir(of_run)
        for name in results:
            Path(name).parent.mkdir(exist_ok=True)
        run()
        written.append([Path(name).read_bytes() for name in results])
    assert written[0] == written[1]
    assert all(written[0])


@pytest.mark.process
@pytest.mark.gate
def test_a_table_that_is_exported_each_night_is_joined_as_it_is_that_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "incremental_runs.md"
    command = next(block.text for block in blocks(page) if block.language == "sh" and "--right-snapshots" in block.text)
    for folder in ("orders", "customers"):
        Path(folder).mkdir()
    Path("orders/1.csv").write_text("id,customer,updated_at\n1,1,2026-03-01\n2,2,2026-03-02\n3,3,2026-03-02\n")
    for day, (rows, names) in NIGHTS.items():
        Path(f"customers/{day}.csv").write_text(f"id,name\n{rows}")
        assert programs.main(shlex.split(command.replace("\\\n", ""))[1:]) == 0
        assert {row["id"]: row["name"] for row in map(json.loads, Path("now.jsonl").read_text().splitlines())} == names
