"""How a program ends that a signal has told to, and what it does not say then."""

import subprocess
import sys
import threading
import time

import grpc

from beam_joins.pipelines.launcher.run_log import machinery_into

PROGRAM = """
import sys
from beam_joins.pipelines.command.interruption import interruptible

with interruptible() as interruption:
    try:
        exec("import signal; signal.raise_signal(signal.SIGTERM)")
    except KeyboardInterrupt:
        pass
sys.exit(interruption.exit_code)
"""


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
