"""Whether a filesystem answers, asked before the work begins."""

import re
import threading
from importlib.util import find_spec
from typing import Final, NamedTuple

from apache_beam.io.filesystems import FileSystems

from beam_joins.errors import InputError, Unavailable, kind_of
from beam_joins.transforms.engine.files.object_clients import objects_at
from beam_joins.transforms.engine.files.objects import MISSING, bucket_and_key
from beam_joins.transforms.engine.files.stored_files import cause, code_of

SECONDS: Final = 8.0
"""The seconds that a store may take to answer for the first time."""
_EXTRA: Final = {"gs": "gcp", "s3": "aws", "azfs": "azure", "hdfs": "hadoop"}
_PACKAGE: Final = {"s3": "boto3", "azfs": "azure.storage.blob"}
"""What Beam's file systems import only when they are used."""
_AZURE: Final = {"abfs", "abfss", "wasb", "wasbs"}
"""Schemes that others have for containers of Azure."""
_RIGHTS: Final = (401, 403)
_reached: set[str] = set()
"""The buckets that have answered."""


class Unreachable(NamedTuple):
    """Why nothing can be read or written at a path, in words, and the class of the error that says so."""

    reason: str
    kind: type[InputError] = InputError

    def __str__(self) -> str:
        return self.reason


def unreachable(path: str) -> Unreachable | None:
    """Why nothing can be read or written at a path of another filesystem; ``None`` if it answers within seconds. It is asked once a
    bucket.
    """
    scheme, bucket = path.partition("://")[0], bucket_and_key(path)[0]
    if (place := f"{scheme}://{bucket}") in _reached:
        return None
    try:
        FileSystems.get_filesystem(path)
        is_installed = scheme not in _PACKAGE or find_spec(_PACKAGE[scheme]) is not None
    except (ValueError, OSError, ImportError):
        is_installed = False
    if not is_installed:
        return Unreachable(
            f"its client is not installed: pip install 'apache-beam[{_EXTRA[scheme]}]'"
            if scheme in _EXTRA
            else f"Beam has no file system for {scheme}://{': write azfs://ACCOUNT/CONTAINER/PATH' if scheme in _AZURE else ''}"
        )
    prefix = re.split(r"[*?\[]", path)[0]
    answers = list[BaseException | None]()
    # a thread that nobody waits for: libraries try for minutes
    asking = threading.Thread(target=_ask, args=(prefix if prefix != place else f"{place}/", answers), daemon=True)
    asking.start()
    asking.join(SECONDS)
    if not answers:
        silent = f"nothing has answered within {SECONDS:.0f} seconds: look at the network, the address and the credentials"
        return Unreachable(silent, Unavailable)
    if (error := answers[0]) is not None and code_of(error) not in _RIGHTS:  # of those, what is read or written tells
        if code_of(error) == MISSING:
            return Unreachable(f"there is no {'container' if scheme == 'azfs' else 'bucket'} {bucket}")
        return Unreachable(cause(error), kind_of(error))
    _reached.add(place)
    return None


def _ask(prefix: str, answers: list[BaseException | None]) -> None:
    try:
        objects_at(prefix).answers(prefix)
        answers.append(None)
    except Exception as error:
        answers.append(error)
