"""Commands between pipes: an input by standard input, a result on standard output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.orders_run import ENVIRONMENT

pytestmark = pytest.mark.process

LEFT = [{"id": 1, "lsn": 1, "updated_at": 1, "op": "c", "of": 7}, {"id": 1, "lsn": 3, "updated_at": 3, "op": "u", "of": 7}]
RIGHT = [{"id": 7, "lsn": 2, "updated_at": 2, "op": "c", "name": "Ann"}]


def lines(*rows: dict[str, object]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def join(folder: Path, *options: str, inputs: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "left.jsonl").write_text(lines(*LEFT))
    (folder / "right.jsonl").write_text(lines(*RIGHT))
    command = [sys.executable, "-m", "beam_joins", "join", "--foreign-key", "of", *options]
    return subprocess.run(command, input=inputs, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, check=False, timeout=120)


@pytest.mark.slow
@pytest.mark.gate
def test_a_join_stands_between_two_pipes(tmp_path: Path) -> None:
    select = ["--select", "left.id as order, right.name as customer"]
    results = ["--latest", "-", "--output", "changes.jsonl"]
    ran = join(tmp_path, "--left", "-", "--right", "right.jsonl", *select, *results, inputs=lines(*LEFT))
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"order": 1, "customer": "Ann"}]
    assert "rows in the final table" in ran.stderr
    assert len((tmp_path / "changes.jsonl").read_text().splitlines()) == 2


def test_a_failed_run_writes_nothing_on_standard_output(tmp_path: Path) -> None:
    ran = join(tmp_path, "--left", "-", "--right", "right.jsonl", "--output", "-", inputs="[1]\n")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "standard-input.jsonl, line 1: not a JSON object" in ran.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--left", "-", "--right", "-", "--output", "o.jsonl"],
            "--left and --right are both -: one of them can come by standard input",
        ),
        (["--left", "left.jsonl", "--right", "right.jsonl", "--output", "-", "--json", "-"], "--output and --json are both -"),
        (["--left", "-", "--right", "right.jsonl", "--changes", "c", "--state-dir", "s"], "is for a run that stands alone"),
    ],
)
def test_what_cannot_be_a_stream_is_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    ran = join(tmp_path, *options)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
