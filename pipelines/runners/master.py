"""Where a runner runs: on local cores, or on a cluster at an address."""

import socket
from dataclasses import dataclass

from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Master:
    """A master, as its runner accepts it.

    `cores` is the number of local cores, None for a cluster; `host` a cluster's host.
    """

    url: str
    cores: int | None = None
    host: str = ""
    port: int = 0

    def check(self, runner: str, option: str) -> None:
        """Raise RunnerSetupError, which names runner and option, when nothing listens at a cluster's address."""
        if self.cores is not None:
            return
        try:
            socket.create_connection((self.host, self.port), _CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise RunnerSetupError(
                f"No {runner} master answers at {self.host}:{self.port} ({reason}); start it, or take {option} "
                f"from the top of its web page."
            ) from None

    def is_here(self) -> bool:
        """Whether the master runs on this machine."""
        if self.cores is not None:
            return True
        try:
            address = socket.gethostbyname(self.host)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))  # only an address of this machine can be bound
        except OSError:
            return False
        return True
