"""Whether docker can start workers on this machine."""

import shutil
import subprocess

from beam_joins.pipelines.launcher.setup_error import RunnerSetupError

_SECONDS = 20.0


def check_docker() -> None:
    """Raise RunnerSetupError when docker is not installed or its daemon does not answer."""
    docker = shutil.which("docker")
    reason = "which is not installed" if docker is None else _complaint(docker)
    if reason:
        raise RunnerSetupError(
            f"--environment_type=DOCKER needs docker on this machine, {reason}; with --environment_type=LOOPBACK the "
            f"workers run in this process."
        )


def _complaint(docker: str) -> str:
    try:
        done = subprocess.run(
            [docker, "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"which does not answer ({error})"
    lines = (done.stderr or done.stdout).strip().splitlines()
    return f"which says: {lines[-1].rstrip('. ') if lines else 'nothing'}" if done.returncode else ""
