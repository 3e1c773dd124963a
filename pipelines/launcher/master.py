"""Spark's master: which ones are meant by `--spark_master_url`, and whether the cluster is this machine."""

import os
import re
import socket
from dataclasses import dataclass

from beam_joins.pipelines.launcher.setup_error import SparkSetupError

CHOICES = "local[*], local[N] or spark://HOST:PORT"
_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)\])?")
_CLUSTER = re.compile(r"spark://([^/:,\s]+):(\d+)")
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Master:
    """A master as Spark takes it. `cores` is the number of local cores, None for a cluster; `host` a cluster's host."""

    url: str
    cores: int | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, url: str) -> "Master":
        """Read a master URL; `local[*]` becomes the number of cores that this process may use.

        Raises SparkSetupError that lists the choices.

        >>> Master.parse("local[2]").cores
        2
        >>> Master.parse("spark://localhost:7077").host
        'localhost'
        """
        local, cluster = _LOCAL.fullmatch(url), _CLUSTER.fullmatch(url)
        if local:
            # A number, as Beam takes only that for local and would ship all its jars for a star.
            cores = usable_cores() if local[1] == "*" else int(local[1] or 1)
            return cls(f"local[{cores}]", cores=cores)
        if cluster:
            return cls(url, host=cluster[1], port=int(cluster[2]))
        raise SparkSetupError(f"--spark_master_url={url} is not one of {CHOICES}.")

    def check(self) -> None:
        """Raise SparkSetupError when nothing listens at a cluster's address."""
        if self.cores is not None:
            return
        try:
            socket.create_connection((self.host, self.port), _CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SparkSetupError(
                f"No Spark master answers at {self.host}:{self.port} ({reason}); start it, or take --spark_master_url "
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


def usable_cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
