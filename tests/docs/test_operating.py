"""The page about operation: its options run, its unit, table of cron and manifests start the same command, its alerts have metrics."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_joins.pipelines.commands import programs
from beam_joins.pipelines.commands.command_options import parse
from beam_joins.pipelines.commands.sample.sample_files import write_sample
from beam_joins.pipelines.join import JOIN
from tests.docs.page import DOCS
from tests.pipelines.orders_run import Run, run_of

PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")
MANIFEST = DOCS.parent / "examples" / "kubernetes" / "cron_job.yaml"


@pytest.fixture
def beam_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command beam-joins, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return run_of(programs.main, capsys)


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[number]


def unit() -> dict[str, str]:
    lines = [line for line in block("ini").splitlines() if line and not line.startswith("[")]
    return dict(line.split("=", 1) for line in lines)


def options_of(command: str) -> list[str]:
    """The options of a command, with the file of this test in place of the one on the page."""
    words = shlex.split(command)
    begin = next(n for n, word in enumerate(words) if word.rpartition("/")[2] == "beam-joins")
    assert words[begin + 1] == "join"
    options = [word for word in words[begin + 2 :] if word not in ("2>&1", ">>", "orders.log")]
    return [word.replace("/etc/beam_joins/", "") for word in options]


def test_the_options_of_the_page_run_twice_and_are_copied_and_gone_back_to(beam_joins: Run) -> None:
    Path("orders.toml").write_text(block("toml"))
    write_sample(Path("s"), orders=40, customers=10)
    for side in ("orders", "customers"):
        Path("in", side).mkdir(parents=True)
        Path(f"s/{side}.jsonl").rename(f"in/{side}/1.jsonl")
    assert beam_joins("join", "--options", "orders.toml", "--dry-run").code == 0
    ran = beam_joins("join", "--options", "orders.toml")
    assert ran.code == 0, ran
    copy = shlex.split(block("sh").splitlines()[1])
    assert beam_joins(*copy[1:]).code == 0
    Path("in/customers/2.jsonl").write_text('{"customer_id": 100, "name": "N", "op": "c", "lsn": 100000, "updated_at": 100000}\n')
    assert beam_joins("join", "--options", "orders.toml").code == 0
    rows = Path("orders.jsonl").read_bytes()
    Path("state").rename("broken")
    Path("state.before").rename("state")
    [each.unlink() for each in Path("changes").glob("*2.jsonl")]
    assert beam_joins("join", "--options", "orders.toml").code == 0
    assert Path("orders.jsonl").read_bytes() == rows
    metrics = {name.partition("{")[0] for name in Path("orders.prom").read_text().split()}
    rules = yaml.safe_load(block("yaml"))["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"beam_joins_\w+", rule["expr"])}
    assert len(rules) == 5
    assert named <= metrics


@pytest.mark.parametrize("where", ["unit", "cron", "Kubernetes"])
def test_each_supervisor_starts_the_command_of_the_page(beam_joins: Run, where: str) -> None:
    Path("orders.toml").write_text(block("toml"))
    pod: Any = yaml.safe_load(MANIFEST.read_text())["spec"]["jobTemplate"]["spec"]
    (container,) = pod["template"]["spec"]["containers"]
    commands = {"unit": unit()["ExecStart"], "cron": block("text").strip(), "Kubernetes": shlex.join(container["command"])}
    args = parse(JOIN, options_of(commands[where]))
    assert (args.left, args.state_dir, args.follow) == ("in/orders", "state", where == "unit")


def test_supervisors_leave_a_command_that_ended_with_code_2() -> None:
    assert (unit()["Restart"], unit()["RestartPreventExitStatus"]) == ("on-failure", "2")
    job = yaml.safe_load(MANIFEST.read_text())["spec"]["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2])
    assert yaml.safe_load(MANIFEST.read_text())["spec"]["concurrencyPolicy"] == "Forbid"
