"""Remembers the files of a changelog that earlier runs have read: each is read once, and must not change."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import xxhash
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_joins.pipelines.base.input_error import InputError
from beam_joins.pipelines.base.paths import matching
from beam_joins.pipelines.formats.files import File

_AT_A_TIME: Final = 1 << 20


class Content(NamedTuple):
    """A file's content when it was read: its size, the time of its last write, and the XXH3 checksum of its
    bytes.
    """

    bytes: int
    written: int
    checksum: str


class SeenFiles:
    """The files of one changelog that runs have read, by their absolute paths; they may be deleted later.

    >>> seen = SeenFiles("orders", {"/in/1.jsonl": (3, 17, "78af5f94892f3950")})
    >>> files = [File(path=f"/in/{n}.jsonl", bytes=3, shown="", format="json lines", written=17) for n in (1, 2)]
    >>> [file.path for file in seen.unseen(files)]
    ['/in/2.jsonl']
    """

    def __init__(self, name: str, stored: dict[str, Any] | None = None) -> None:
        """``stored`` is what :meth:`stored` gave in the last run."""
        self._name = name
        self._contents = {path: Content(*content) for path, content in (stored or {}).items()}

    def __len__(self) -> int:
        return len(self._contents)

    def stored(self) -> dict[str, Any]:
        """All remembered files, as JSON values."""
        return {path: list(content) for path, content in self._contents.items()}

    def unseen(self, files: Sequence[File]) -> list[File]:
        """The files that no run has read.

        Only a file of another time is read again to be compared. Raises InputError for one whose content has
        changed since a run has read it.
        """
        return [file for file in files if not self._is_known(file)]

    def _is_known(self, file: File) -> bool:
        earlier = self._contents.get(file.path)
        if earlier is not None and (file.bytes, file.written) != earlier[:2]:
            if file.bytes != earlier.bytes or _checksum(self._name, file) != earlier.checksum:
                raise InputError(
                    f"{self._name}: {file.shown} has changed since a run has read it: put it back as it was, and new "
                    "records into a new file"
                )
            self._contents[file.path] = earlier._replace(written=file.written)
        return earlier is not None

    def add(self, files: Iterable[File]) -> None:
        """Remembers the content of files that are about to be read."""
        for file in files:
            self._contents[file.path] = Content(file.bytes, file.written, _checksum(self._name, file))

    def require_unchanged(self, files: Iterable[File]) -> None:
        """Raise InputError for a file that was written while it was read."""
        for file in files:
            now = next(((present.bytes, present.written) for present in matching(file.path)), None)
            if now != self._contents[file.path][:2]:
                raise InputError(
                    f"{self._name}: {file.shown} was written or removed while it was read: run again when it is whole, "
                    "and have files get"
                    " their names when they are"
                )


def _checksum(name: str, file: File) -> str:
    digest = xxhash.xxh3_64()
    try:
        with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as opened:
            while data := opened.read(_AT_A_TIME):
                digest.update(data)
    except OSError as error:
        raise InputError(f"{name}: cannot read {file.shown}: {error.strerror or error}") from error
    return digest.hexdigest()
