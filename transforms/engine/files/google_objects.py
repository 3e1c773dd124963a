"""Objects of Google Cloud Storage, by its client."""

from collections.abc import Iterable, Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.errors import http_status
from beam_joins.transforms.engine.files.object_streams import Range
from beam_joins.transforms.engine.files.objects import ListedFile, ListedObjects, bucket_and_key

_CHANGED, _NO_RANGE = 412, 416
_BYTES = "application/octet-stream"


class GoogleObjects(ListedObjects):
    """Objects of Google Cloud Storage; a version is a generation."""

    def __init__(self, options: PipelineOptions) -> None:
        from apache_beam.io.gcp.gcsio import create_storage_client  # noqa: PLC0415  # only where it is used

        super().__init__(options)
        self._client = create_storage_client(options)

    def _io(self) -> Any:
        from apache_beam.io.gcp.gcsio import GcsIO  # noqa: PLC0415

        return GcsIO(self._client, self._options)

    def _blob(self, path: str) -> Any:
        bucket, key = bucket_and_key(path)
        return self._client.bucket(bucket).blob(key)

    def create_large(self, path: str) -> Any:
        """A new object, by an upload in parts."""
        return self._io().open(path, "w")

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        blob = self._blob(path)
        blob.reload()
        return int(blob.size)

    def read(self, path: str) -> bytes:
        """The whole content."""
        return bytes(self._blob(path).download_as_bytes())

    def read_range(self, path: str, start: int, stop: int) -> Range:
        """The bytes from a place up to another one, none behind the end."""
        try:
            return Range(bytes(self._blob(path).download_as_bytes(start=start, end=stop - 1)))
        except Exception as error:
            if http_status(error) != _NO_RANGE:
                raise
            return Range(b"")  # it is empty, or ends here

    def write(self, path: str, content: bytes) -> None:
        """Write an object as a whole, in place of another one."""
        self._blob(path).upload_from_string(content, content_type=_BYTES)

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        return bool(self._blob(path).exists())

    def below(self, prefix: str) -> Iterable[ListedFile]:
        """All objects whose paths begin so."""
        bucket, key = bucket_and_key(prefix)
        for blob in self._client.list_blobs(bucket, prefix=key):
            yield ListedFile(f"gs://{bucket}/{blob.name}", blob.size, round(blob.updated.timestamp() * 1e9), blob.crc32c or "")

    def answers(self, prefix: str) -> None:
        """Ask once for an object whose path begins so."""
        bucket, key = bucket_and_key(prefix)
        next(iter(self._client.list_blobs(bucket, prefix=key, max_results=1, retry=None)), None)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; some may not be there."""
        for path, code in self._io().delete_batch(list(paths)):
            if code is not None:
                raise OSError(f"{path}: the store answered {code} to its deletion")

    def rename(self, source: str, target: str) -> None:
        """Copy an object, in place of another one, and delete it."""
        self._io().rename(source, target)

    def read_version(self, path: str) -> tuple[bytes, str]:
        """The content and its generation."""
        blob = self._blob(path)
        content = bytes(blob.download_as_bytes())
        if (generation := blob.generation) is None:  # the answer did not say it
            blob.reload()
            generation = blob.generation
            content = bytes(blob.download_as_bytes(if_generation_match=generation))
        return content, str(generation or 0)

    def write_over(self, path: str, content: bytes, version: str | None) -> bool:
        """Write an object if its generation is still this one; gives whether it was."""
        try:
            self._blob(path).upload_from_string(content, content_type=_BYTES, if_generation_match=int(version or 0))
        except Exception as error:
            if http_status(error) != _CHANGED:
                raise
            return self._has(path, content)
        return True
