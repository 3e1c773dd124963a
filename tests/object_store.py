"""A file system of Beam's that behaves as stores of objects do, in this process: ``bucket://NAME/KEY``.

There are no folders: keys are listed by how they begin, and a delete of ``a/b`` removes that key alone. A rename is a copy and
a delete. What is not there raises an error of the store's own. Operations are counted, and can be made to fail, to hang,
or to do something else before.
"""

import io
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam.io.filesystem as beam_files
from xxhash import xxh3_64_hexdigest

from beam_joins.transforms.engine.files.object_clients import CLIENTS
from beam_joins.transforms.engine.files.objects import Objects


class NotFound(Exception):
    """No OSError, as Google's; ``code`` as HTTP has it."""

    code = 404


class Forbidden(Exception):
    """As for a key that the store refuses."""

    code = 403


class Store:
    """What is in the buckets, of one test."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.buckets = {"in", "out", "state"}
        self._before: list[Callable[[str, str], None]] = []
        self.alone = threading.RLock()

    @contextmanager
    def before(self, action: Callable[[str, str], None]) -> Iterator[None]:
        """Call a function with each operation and path before it is done; what it raises is what the store says."""
        self._before.append(action)
        try:
            yield
        finally:
            self._before.remove(action)

    def failing(self, operation: str, ending: str, error: Callable[[], Exception]) -> Any:
        """Have an operation of paths that end so fail."""

        def fails(each: str, path: str) -> None:
            if each == operation and path.endswith(ending):
                raise error()

        return self.before(fails)

    def call(self, operation: str, path: str) -> None:
        self.counts[operation] += 1
        for action in list(self._before):
            action(operation, path)
        if path.removeprefix("bucket://").partition("/")[0] not in self.buckets:
            raise NotFound(f"404 {path}: The specified bucket does not exist.")

    def put(self, path: str, content: bytes) -> None:
        with self.alone:
            self.objects[path], self.written[path] = content, time.time()

    def get(self, path: str) -> bytes:
        try:
            return self.objects[path]
        except KeyError:
            raise NotFound(f"404 GET {path}: No such object") from None

    def names(self, below: str) -> list[str]:
        """The keys that begin so, without the beginning."""
        with self.alone:
            return sorted(path.removeprefix(below) for path in self.objects if path.startswith(below))

    def content(self, below: str) -> dict[str, bytes]:
        """The objects whose paths begin so, by their paths behind the beginning."""
        return {name: self.objects[below + name] for name in self.names(below)}


STORE = Store()


class _Upload(io.BytesIO):
    """An object is there when its upload ends."""

    mode = "wb"

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            STORE.call("upload", self._path)
            STORE.put(self._path, content)


class _Download(io.BytesIO):
    mode = "rb"


class ObjectStore(beam_files.FileSystem):
    """The file system of :data:`STORE`."""

    @classmethod
    def scheme(cls) -> str:
        return "bucket"

    def join(self, basepath: str, *paths: str) -> str:
        for path in paths:
            basepath = f"{basepath.rstrip('/')}/{path.lstrip('/')}"
        return basepath

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        pass

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[Any]:
        try:
            STORE.call("list", dir_or_prefix)
            for name in STORE.names(dir_or_prefix):
                yield self._metadata(dir_or_prefix + name)
        except Exception as error:
            raise beam_files.BeamIOError("List operation failed", {dir_or_prefix: error}) from error

    def create(self, path: str, mime_type: str = "", compression_type: str = beam_files.CompressionTypes.AUTO) -> Any:
        STORE.call("create", path)
        return self._compressed(path, _Upload(path), compression_type)

    def open(self, path: str, mime_type: str = "", compression_type: str = beam_files.CompressionTypes.AUTO) -> Any:
        STORE.call("open", path)
        return self._compressed(path, _Download(STORE.get(path)), compression_type)

    def _compressed(self, path: str, file: Any, compression_type: str) -> Any:
        kind = self._get_compression_type(path, compression_type)
        return file if kind == beam_files.CompressionTypes.UNCOMPRESSED else beam_files.CompressedFile(file, compression_type=kind)

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, target in zip(source_file_names, destination_file_names, strict=True):
            STORE.call("copy", source)
            STORE.put(target, STORE.get(source))

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        try:
            self.copy(source_file_names, destination_file_names)
        except Exception as error:
            raise beam_files.BeamIOError("Rename operation failed", {tuple(source_file_names): error}) from error
        for source in source_file_names:
            STORE.call("delete", source)
            STORE.objects.pop(source, None)

    def exists(self, path: str) -> bool:
        try:
            STORE.call("exists", path)
        except NotFound:
            return False
        return path in STORE.objects

    def size(self, path: str) -> int:
        return len(STORE.get(path))

    def last_updated(self, path: str) -> float:
        return STORE.written[path]

    def metadata(self, path: str) -> Any:
        STORE.call("metadata", path)
        return self._metadata(path)

    def _metadata(self, path: str) -> Any:
        return beam_files.FileMetadata(path, len(STORE.get(path)), STORE.written[path])

    def delete(self, paths: list[str]) -> None:
        """A path that ends with a slash stands for all that begin so; another one is a pattern, as Beam's for Google has it."""
        for path in paths:
            for file in self.match([f"{path}**" if path.endswith("/") else path])[0].metadata_list:
                STORE.call("delete", file.path)
                STORE.objects.pop(file.path, None)


class Bucket(Objects):
    """The store as a client sees it that writes on conditions."""

    def write_over(self, path: str, content: bytes, version: str | None) -> bool:
        STORE.call("create", path)
        STORE.call("upload", path)
        with STORE.alone:
            if (xxh3_64_hexdigest(STORE.objects[path]) if path in STORE.objects else None) != version:
                return False
            STORE.put(path, content)
        return True


CLIENTS["bucket"] = Bucket
