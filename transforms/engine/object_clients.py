"""Clients of stores of objects: one for a store in each process, where Beam makes one for each operation. An object is
written on the condition that nobody else has written it.
"""

import copy
import io
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from xxhash import xxh3_64_hexdigest

_RAW: Final = CompressionTypes.UNCOMPRESSED
_PATTERN: Final = re.compile(r"[*?\[]")
_IN_ONE: Final = 8 << 20
"""The largest number of bytes that one request writes, and that it reads where less is asked for."""
_TOO_LARGE, _MISSING, _CONFLICT, _CHANGED, _NO_RANGE = 400, 404, 409, 412, 416
_AT_ONCE: Final = 1000
"""The most objects that S3 deletes in a request."""

if FileSystems._pipeline_options is None:  # S3 asks for some, also in a worker of a pool and before there is a pipeline
    FileSystems.set_options(PipelineOptions([]))


def error_code(error: BaseException) -> Any:
    """The HTTP status that an error of a client has, ``None`` without one."""
    response = getattr(error, "response", None)  # of boto3
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return getattr(error, "code", None) if status is None else status


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

    def write(self, path: str, content: bytes) -> None:
        """Write an object as a whole, in place of another one."""
        self._make_room(path)
        with self.create(path) as file:
            file.write(content)

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        return bool(FileSystems.exists(path))

    def below(self, prefix: str) -> Iterable[FileMetadata]:
        """All objects whose paths begin so."""
        return list(FileSystems.match([f"{prefix}**"])[0].metadata_list)

    def matching(self, pattern: str) -> Iterable[FileMetadata]:
        """The object of exactly this path, or else those whose paths match it as a pattern."""
        if _PATTERN.search(pattern) and self.exists(pattern):
            return [FileSystems.get_filesystem(pattern).metadata(pattern)]
        return list(FileSystems.match([pattern])[0].metadata_list)

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
        return content, self.version(content)

    @staticmethod
    def version(content: bytes) -> str:
        """The version of a content, where that alone tells versions apart."""
        return xxh3_64_hexdigest(content)

    def write_over(self, path: str, content: bytes, version: str | None) -> str | None:
        """Write an object if its version is still this one, ``None`` for one that is not there; gives the new version, or
        ``None`` if somebody has written it. Where a file system has no such writes, others may come in between.
        """
        try:
            now = self.read_version(path)[1]
        except Exception:
            if self.exists(path):
                raise
            now = None
        if now != version:
            return None
        self.write(path, content)
        return self.version(content)


class _Ranges(io.RawIOBase):
    """An object that is read in ranges, as it is asked for; ``get`` gives the bytes from a place up to another one, and the size
    of the whole.
    """

    mode = "rb"

    def __init__(self, get: Callable[[int, int], tuple[bytes, int]], size: Callable[[], int]) -> None:
        super().__init__()
        self._get, self._ask_size = get, size
        self._at = 0
        self._size: int | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size is None:
            self._size = self._ask_size()
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        return self._at

    def readall(self) -> bytes:  # else it comes in small pieces
        whole = bytearray()
        while some := self.read(_IN_ONE if self._size is None else max(_IN_ONE, self._size - self._at)):
            whole += some
        return bytes(whole)

    def readinto(self, buffer: Any) -> int:
        if self._size is not None and self._at >= self._size:
            return 0
        content, self._size = self._get(self._at, self._at + len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _reader(get: Callable[[int, int], tuple[bytes, int]], size: Callable[[], int]) -> Any:
    return io.BufferedReader(_Ranges(get, size), _IN_ONE)


class _Upload(io.RawIOBase):
    """An object that is written in one request if it is small, empty ones too, else in parts by ``begin``."""

    mode = "wb"

    def __init__(self, write: Callable[[bytes], None], begin: Callable[[], Any]) -> None:
        super().__init__()
        self._write, self._begin = write, begin
        self._held = bytearray()
        self._file: Any = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._file is None and len(self._held) + size > _IN_ONE:
            self._file, held = self._begin(), bytes(self._held)
            self._file.write(held)
            self._held.clear()
        if self._file is None:
            self._held += memoryview(data).cast("B") if size else b""
        else:
            self._file.write(data)
        return size

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self._file is None:
            self._write(bytes(self._held))
        else:
            self._file.close()


def _bucket_and_key(path: str) -> tuple[str, str]:
    _, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return bucket, key


class _Listed(Objects):
    """Objects of a store that lists them by how their paths begin."""

    def matching(self, pattern: str) -> Iterable[FileMetadata]:
        matches = re.compile(FileSystem.translate_pattern(pattern)).match
        files = list(self.below(_PATTERN.split(pattern)[0]))
        return [file for file in files if file.path == pattern] or [file for file in files if matches(file.path)]


class _S3(_Listed):
    """Objects of S3, by boto3."""

    def __init__(self, options: PipelineOptions) -> None:
        from apache_beam.io.aws.clients.s3.boto3_client import Client  # noqa: PLC0415  # only where it is used

        super().__init__(options)
        self._beam = Client(options)
        self._client = self._beam.client

    def _io(self) -> Any:
        from apache_beam.io.aws.s3io import S3IO  # noqa: PLC0415

        return S3IO(client=copy.copy(self._beam))  # which has the place in one download

    def open(self, path: str) -> Any:
        bucket, key = _bucket_and_key(path)

        def get(start: int, stop: int) -> tuple[bytes, int]:
            try:
                answer = self._client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}")
            except Exception as error:
                if error_code(error) != _NO_RANGE:
                    raise
                return b"", start  # it is empty, or ends here
            content = answer["Body"].read()
            size = answer.get("ContentRange", "").rpartition("/")[2]
            return content, int(size) if size else len(content)

        return _reader(get, lambda: int(self._client.head_object(Bucket=bucket, Key=key)["ContentLength"]))

    def create(self, path: str) -> Any:
        return _Upload(lambda content: self.write(path, content), lambda: self._io().open(path, "w"))

    def read(self, path: str) -> bytes:
        return self._get(path)[0]

    def _get(self, path: str) -> tuple[bytes, str]:
        bucket, key = _bucket_and_key(path)
        answer = self._client.get_object(Bucket=bucket, Key=key)
        return answer["Body"].read(), answer["ETag"]

    def write(self, path: str, content: bytes) -> None:
        if len(content) > _IN_ONE:
            with self._io().open(path, "w") as file:
                file.write(content)
        else:
            bucket, key = _bucket_and_key(path)
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def exists(self, path: str) -> bool:
        bucket, key = _bucket_and_key(path)
        try:
            self._client.head_object(Bucket=bucket, Key=key)
        except Exception as error:
            if error_code(error) != _MISSING:
                raise
            return False
        return True

    def below(self, prefix: str) -> Iterable[FileMetadata]:
        bucket, key = _bucket_and_key(prefix)
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
            for each in page.get("Contents", ()):
                yield FileMetadata(f"s3://{bucket}/{each['Key']}", each["Size"], each["LastModified"].timestamp())

    def answers(self, prefix: str) -> None:
        bucket, key = _bucket_and_key(prefix)
        self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)

    def delete(self, paths: Sequence[str]) -> None:
        for bucket, keys in _by_bucket(paths):
            for begin in range(0, len(keys), _AT_ONCE):
                some = {"Objects": [{"Key": key} for key in keys[begin : begin + _AT_ONCE]], "Quiet": True}
                for refused in self._client.delete_objects(Bucket=bucket, Delete=some).get("Errors", ()):
                    raise OSError(f"s3://{bucket}/{refused['Key']}: {refused.get('Message') or refused.get('Code')}")

    def rename(self, source: str, target: str) -> None:
        (bucket, key), (into, name) = _bucket_and_key(source), _bucket_and_key(target)
        try:
            self._client.copy_object(Bucket=into, Key=name, CopySource={"Bucket": bucket, "Key": key})
        except Exception as error:
            if error_code(error) != _TOO_LARGE:
                raise
            self._io().copy(source, target)  # in parts
        self._client.delete_object(Bucket=bucket, Key=key)

    def read_version(self, path: str) -> tuple[bytes, str]:
        return self._get(path)

    def write_over(self, path: str, content: bytes, version: str | None) -> str | None:
        bucket, key = _bucket_and_key(path)
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            answer = self._client.put_object(Bucket=bucket, Key=key, Body=content, **condition)
        except Exception as error:
            if error_code(error) not in (_MISSING, _CONFLICT, _CHANGED) or _says_no_bucket(error):
                raise
            return self._written_before(path, content)
        return str(answer["ETag"])

    def _written_before(self, path: str, content: bytes) -> str | None:
        """The version of an object that has this content: an attempt at the request was done, and its answer was lost."""
        with suppress(Exception):
            there, version = self._get(path)
            return version if there == content else None
        return None


def _says_no_bucket(error: BaseException) -> bool:
    return "NoSuchBucket" in str(error)


class _Gcs(_Listed):
    """Objects of Google Cloud Storage, by its client; a version is a generation."""

    def __init__(self, options: PipelineOptions) -> None:
        from apache_beam.io.gcp.gcsio import create_storage_client  # noqa: PLC0415

        super().__init__(options)
        self._client = create_storage_client(options)

    def _io(self) -> Any:
        from apache_beam.io.gcp.gcsio import GcsIO  # noqa: PLC0415

        return GcsIO(self._client, self._options)

    def _blob(self, path: str) -> Any:
        bucket, key = _bucket_and_key(path)
        return self._client.bucket(bucket).blob(key)

    def open(self, path: str) -> Any:
        blob = self._blob(path)

        def size() -> int:
            if blob.size is None:
                blob.reload()
            return int(blob.size)

        def get(start: int, stop: int) -> tuple[bytes, int]:
            whole = size()
            return (blob.download_as_bytes(start=start, end=min(stop, whole) - 1) if start < whole else b""), whole

        return _reader(get, size)

    def create(self, path: str) -> Any:
        return _Upload(lambda content: self.write(path, content), lambda: self._io().open(path, "w"))

    def read(self, path: str) -> bytes:
        return bytes(self._blob(path).download_as_bytes())

    def write(self, path: str, content: bytes) -> None:
        self._blob(path).upload_from_string(content, content_type="application/octet-stream")

    def exists(self, path: str) -> bool:
        return bool(self._blob(path).exists())

    def below(self, prefix: str) -> Iterable[FileMetadata]:
        bucket, key = _bucket_and_key(prefix)
        for blob in self._client.list_blobs(bucket, prefix=key):
            yield FileMetadata(f"gs://{bucket}/{blob.name}", blob.size, blob.updated.timestamp())

    def answers(self, prefix: str) -> None:
        bucket, key = _bucket_and_key(prefix)
        next(iter(self._client.list_blobs(bucket, prefix=key, max_results=1, retry=None)), None)

    def delete(self, paths: Sequence[str]) -> None:
        for path, code in self._io().delete_batch(list(paths)):
            if code is not None:
                raise OSError(f"{path}: the store answered {code} to its deletion")

    def rename(self, source: str, target: str) -> None:
        self._io().rename(source, target)

    def read_version(self, path: str) -> tuple[bytes, str]:
        blob = self._blob(path)
        blob.reload()
        return bytes(blob.download_as_bytes(if_generation_match=blob.generation)), str(blob.generation or 0)

    def write_over(self, path: str, content: bytes, version: str | None) -> str | None:
        blob = self._blob(path)
        try:
            blob.upload_from_string(content, content_type="application/octet-stream", if_generation_match=int(version or 0))
        except Exception as error:
            if error_code(error) != _CHANGED:
                raise
            with suppress(Exception):  # an attempt at the request was done, and its answer was lost
                there, now = self.read_version(path)
                return now if there == content else None
            return None
        return str(blob.generation or 0)


def _by_bucket(paths: Iterable[str]) -> Iterable[tuple[str, list[str]]]:
    keys = defaultdict[str, list[str]](list)
    for path in paths:
        bucket, key = _bucket_and_key(path)
        keys[bucket].append(key)
    return keys.items()


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


CLIENTS: Final[dict[str, type[Objects]]] = {"s3": _S3, "gs": _Gcs}
"""The clients by the schemes of paths; other file systems are used as Beam has them."""
_clients = _Clients()
os.register_at_fork(after_in_child=_clients.forget)  # connections are the parent's


def objects_at(path: str) -> Objects:
    """The objects of the store that a path is in, by a client that the process keeps."""
    return _clients.at(path)
