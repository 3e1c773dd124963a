"""Keys of classes that a script defines meet, wherever the script runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.orders_run import ENVIRONMENT

SCRIPT = Path(__file__).with_name("keys_of_a_script.py")


@pytest.mark.process
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--runner=DirectRunner"], id="direct"),
        pytest.param(
            ["--runner=SparkRunner", "--spark_master_url=local[2]"], marks=[pytest.mark.spark, pytest.mark.sweep], id="spark"
        ),
    ],
)
def test_keys_of_classes_of_the_main_script_meet(options, tmp_path):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        cwd=tmp_path,
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    message = ran.stdout + ran.stderr
    lines = [line for line in message.splitlines() if line.startswith(("met ", "key "))]
    expected = [f"met {form} {n} {n}" for form in ("records", "columns") for n in range(5)] + [f"key {n} True" for n in range(5)]
    assert (ran.returncode, sorted(lines)) == (0, sorted(expected)), message[-5000:]
