"""Objects of a store, or files of another file system, as the rest of the engine asks for them: by Beam's file systems, or by a
client of the store.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from xxhash import xxh3_64_hexdigest

from beam_joins.transforms.engine.files.object_streams import ObjectReader, ObjectWriter, Range

MISSING: Final = 404
_RAW: Final = CompressionTypes.UNCOMPRESSED
_PATTERN: Final = re.compile(r"[*?\[]")


def bucket_and_key(path: str) -> tuple[str, str]:
    """The bucket of a path, or the account and the container of one of Azure, and the key of its object.

    >>> bucket_and_key("s3://bucket/a/b"), bucket_and_key("azfs://account/container/a/b")
    (('bucket', 'a/b'), ('account/container', 'a/b'))
    """
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme == "azfs":
        container, _, key = key.partition("/")
        bucket = f"{bucket}/{container}"
    return bucket, key


def by_bucket(paths: Iterable[str], most: int) -> Iterator[tuple[str, list[str]]]:
    """The buckets of paths, each with at most so many keys at a time.

    >>> list(by_bucket(["s3://a/1", "s3://b/2", "s3://a/3", "s3://a/4"], 2))
    [('a', ['1', '3']), ('a', ['4']), ('b', ['2'])]
    """
    keys = defaultdict[str, list[str]](list)
    for path in paths:
        bucket, key = bucket_and_key(path)
        keys[bucket].append(key)
    for bucket, each in keys.items():
        for begin in range(0, len(each), most):
            yield bucket, each[begin : begin + most]


class ListedFile(NamedTuple):
    """A file in a list: the time of its last write in nanoseconds since 1970, and where a store has one, a digest that says of
    two contents of one length whether they differ.
    """

    path: str
    bytes: int
    written: int
    digest: str = ""


class Objects:
    """The objects, or files, of a file system of Beam's, by their paths; raises whatever its client raises.

    A version is a text that differs when an object has been written again.
    """

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options

    def open(self, path: str) -> Any:
        """The object, to be read."""
        return FileSystems.open(path, compression_type=_RAW)

    def create(self, path: str) -> Any:
        """A new object, which is there when it is closed."""
        return FileSystems.create(path, compression_type=_RAW)

    def read(self, path: str) -> bytes:
        """The whole content."""
        with self.open(path) as file:
            return bytes(file.read())

    def read_range(self, path: str, start: int, stop: int) -> Range:
        """The bytes from a place up to another one, none behind the end."""
        with self.open(path) as file:
            file.seek(start)
            return Range(bytes(file.read(stop - start)))

    def write(self, path: str, content: bytes) -> None:
        """Write an object as a whole, in place of another one."""
        self._make_room(path)
        with self.create(path) as file:
            file.write(content)

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        return bool(FileSystems.exists(path))

    def below(self, prefix: str) -> Iterable[ListedFile]:
        """All objects whose paths begin so."""
        return map(_listed, FileSystems.match([f"{prefix}**"])[0].metadata_list)

    def matching(self, pattern: str) -> Iterable[ListedFile]:
        """The object of exactly this path, or else those whose paths match it as a pattern."""
        if _PATTERN.search(pattern) and self.exists(pattern):
            return [_listed(FileSystems.get_filesystem(pattern).metadata(pattern))]
        return map(_listed, FileSystems.match([pattern])[0].metadata_list)

    def answers(self, prefix: str) -> None:
        """Ask once for objects whose paths begin so."""
        system: Any = FileSystems.get_filesystem(prefix)
        if system.has_dirs():
            system.exists(prefix)
        else:
            next(iter(system._list(prefix)), None)  # the first page alone

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; some may not be there."""
        FileSystems.delete(list(paths))

    def rename(self, source: str, target: str) -> None:
        """Rename an object, in place of another one."""
        self._make_room(target)
        FileSystems.get_filesystem(target).rename([source], [target])

    @staticmethod
    def _make_room(path: str) -> None:
        """Delete a file where others do not replace it, as that of HDFS; in a store another process may have just written it."""
        system = FileSystems.get_filesystem(path)
        if system.has_dirs() and system.exists(path):
            system.delete([path])

    def read_version(self, path: str) -> tuple[bytes, str]:
        """The content and its version."""
        content = self.read(path)
        return content, xxh3_64_hexdigest(content)

    def write_over(self, path: str, content: bytes, version: str | None) -> bool:
        """Write an object if its version is still this one, ``None`` for an object that is not there; gives whether it was. Where a
        file system has no such writes, others may come in between.
        """
        try:
            now = self.read_version(path)[1]
        except Exception:
            if self.exists(path):
                raise
            now = None
        if now != version:
            return False
        self.write(path, content)
        return True

    def _has(self, path: str, content: bytes) -> bool:
        """Whether an object has this content: an attempt at its request was done, and the answer was lost."""
        with suppress(Exception):
            return self.read(path) == content
        return False


class ListedObjects(Objects):
    """Objects of a store that lists them by how their paths begin, by a client that reads and writes in single requests."""

    def open(self, path: str) -> Any:
        """The object, to be read in ranges."""
        return ObjectReader(lambda start, stop: self.read_range(path, start, stop), lambda: self.size(path))

    def create(self, path: str) -> Any:
        """A new object, which is there when it is closed."""
        return ObjectWriter(lambda content: self.write(path, content), lambda: self.create_large(path))

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        raise NotImplementedError

    def create_large(self, path: str) -> Any:
        """A new object, which is written in several requests."""
        raise NotImplementedError

    def matching(self, pattern: str) -> Iterable[ListedFile]:
        """The object of exactly this path, or else those whose paths match it as a pattern, by one list."""
        matches = re.compile(FileSystem.translate_pattern(pattern)).match
        files = list(self.below(_PATTERN.split(pattern)[0]))
        return [file for file in files if file.path == pattern] or [file for file in files if matches(file.path)]


def _listed(file: FileMetadata) -> ListedFile:
    return ListedFile(file.path, file.size_in_bytes, round(file.last_updated_in_seconds * 1e9))
