"""How a program ends that a signal has told to, and what it does not say then."""

import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace

import grpc
import pytest

from beam_joins.pipelines.base.interruption import interruptible
from beam_joins.pipelines.base.progress import Progress
from beam_joins.pipelines.commands.command_line import beam_options
from beam_joins.pipelines.commands.exports import Exports
from beam_joins.pipelines.commands.follow import follow
from beam_joins.pipelines.commands.incremental_runs import Ended
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.join import JOIN
from beam_joins.pipelines.results.write_parts import Report
from beam_joins.pipelines.runners.run_log import machinery_into

PROGRAM = """
import sys
from beam_joins.pipelines.base.interruption import interruptible

with interruptible() as interruption:
    try:
        exec("import signal; signal.raise_signal(signal.SIGTERM)")
    except KeyboardInterrupt:
        pass
sys.exit(interruption.exit_code)
"""


@pytest.mark.process
@pytest.mark.gate
def test_a_signal_within_code_that_is_made_from_text_gives_the_exit_code_of_any_other(tmp_path):
    (tmp_path / "told_to_end.py").write_text(PROGRAM)
    ended = subprocess.run([sys.executable, "-m", "told_to_end"], cwd=tmp_path, check=False)
    assert ended.returncode == 143


def test_a_reader_of_messages_that_fails_late_is_not_seen_at_the_terminal(tmp_path, capsys):
    def fails() -> None:
        time.sleep(0.3)
        raise grpc.RpcError("Socket closed")

    with machinery_into(tmp_path / "log"):
        threading.Thread(target=fails, name="wait_until_finish_read", daemon=True).start()
    assert "Socket closed" in (tmp_path / "log").read_text()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["between two rounds", "in a round"])
def test_signals_to_a_command_that_follows_never_deny_what_was_written(where: str) -> None:
    class Rounds:
        """A run that has written, and then two signals at once, as ``timeout`` sends them."""

        rounds, command = 0, "orders"

        def whole(self, *_: object) -> dict[str, list[File]]:
            return {}

        def arrived(self) -> dict[str, list[File]]:
            if self.rounds and where == "between two rounds":
                self.signals()
            return {}

        def run(self, *_: object) -> Ended:
            if self.rounds and where == "in a round":
                self.signals()
            self.rounds += 1
            return Ended(self.rounds, 1, Report([], []), lambda seconds: None)  # type: ignore[arg-type, return-value]

        def signals(self) -> None:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    places = {"changes": "out/changes", "latest": "now.jsonl", "to": None, "json": None, "metrics_file": None, "lineage_file": None}
    args = Namespace(every=0.0, retry_for=0.0, whole_files=True, dry_run=False, **places)
    exports = Exports(JOIN, args, Progress())
    with interruptible() as interruption:
        interruption.at_second = True
        if where == "in a round":
            with pytest.raises(KeyboardInterrupt):
                follow(Rounds(), beam_options(None, []), args, interruption, exports)  # type: ignore[arg-type]
            assert interruption.sentence.startswith("interrupted after 1 run, whose results stay; the next start repeats a run")
        else:
            message = follow(Rounds(), beam_options(None, []), args, interruption, exports)  # type: ignore[arg-type]
            assert message == "stopped after 2 runs; the results are in out/changes and now.jsonl"


@pytest.mark.process
def test_a_thread_that_waits_for_ever_does_not_keep_an_interrupted_program():
    program = [
        "import threading",
        "from beam_joins.pipelines.base.interruption import leave_threads_behind",
        "threading.Thread(target=threading.Event().wait).start()",
        "leave_threads_behind(143)",
    ]
    assert subprocess.run([sys.executable, "-c", "\n".join(program)], timeout=60, check=False).returncode == 143
