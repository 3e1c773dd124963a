"""The client of each store, one in a process, where Beam makes one for each operation."""

import os
import threading
from typing import Any, Final

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.transforms.engine.files.azure_objects import AzureObjects
from beam_joins.transforms.engine.files.google_objects import GoogleObjects
from beam_joins.transforms.engine.files.objects import Objects
from beam_joins.transforms.engine.files.s3_objects import S3Objects

if FileSystems._pipeline_options is None:  # S3 asks for some, also in a worker of a pool and before there is a pipeline
    FileSystems.set_options(PipelineOptions([]))


class _Clients:
    """The clients of a process, by scheme, each with the options that it was made with."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._made: dict[str, tuple[Any, dict[str, Any], Objects]] = {}
        self._lock = threading.Lock()

    def at(self, path: str) -> Objects:
        scheme = path.partition("://")[0]
        options: Any = FileSystems._pipeline_options
        made = self._made.get(scheme)
        if made is not None and made[0] is options:
            return made[2]
        with self._lock:
            values, made = options.get_all_options(), self._made.get(scheme)
            objects = made[2] if made is not None and made[1] == values else CLIENTS.get(scheme, Objects)(options)
            self._made[scheme] = options, values, objects
            return objects


CLIENTS: Final[dict[str, type[Objects]]] = {"s3": S3Objects, "gs": GoogleObjects, "azfs": AzureObjects}
"""The clients by the schemes of paths; other file systems are used as Beam has them."""
_clients = _Clients()
os.register_at_fork(after_in_child=_clients.forget)  # connections are the parent's


def objects_at(path: str) -> Objects:
    """The objects of the store that a path is in, by a client that the process keeps."""
    return _clients.at(path)
