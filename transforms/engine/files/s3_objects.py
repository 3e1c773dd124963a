"""Objects of S3, by boto3."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.errors import http_status
from beam_joins.transforms.engine.files.object_streams import IN_ONE, Range
from beam_joins.transforms.engine.files.objects import MISSING, ListedFile, ListedObjects, bucket_and_key, by_bucket

_TOO_LARGE, _CONFLICT, _CHANGED, _NO_RANGE, _NOT_IMPLEMENTED = 400, 409, 412, 416, 501
_AT_ONCE: Final = 1000
"""The most objects that S3 deletes in a request."""


class S3Objects(ListedObjects):
    """Objects of S3; a version is an ETag."""

    def __init__(self, options: PipelineOptions) -> None:
        from apache_beam.io.aws.clients.s3.boto3_client import Client  # noqa: PLC0415  # only where it is used

        super().__init__(options)
        self._beam = Client(options)
        self._client = self._beam.client

    def _io(self) -> Any:
        from apache_beam.io.aws.s3io import S3IO  # noqa: PLC0415

        return S3IO(client=copy.copy(self._beam))  # which has the place in one download

    def create_large(self, path: str) -> Any:
        """A new object, by an upload in parts."""
        return self._io().open(path, "w")

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        bucket, key = bucket_and_key(path)
        return int(self._client.head_object(Bucket=bucket, Key=key)["ContentLength"])

    def read(self, path: str) -> bytes:
        """The whole content."""
        return self.read_version(path)[0]

    def read_range(self, path: str, start: int, stop: int) -> Range:
        """The bytes from a place up to another one, none behind the end."""
        bucket, key = bucket_and_key(path)
        try:
            answer = self._client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}")
        except Exception as error:
            if http_status(error) != _NO_RANGE:
                raise
            return Range(b"")  # it is empty, or ends here
        content = answer["Body"].read()
        size = answer.get("ContentRange", "").rpartition("/")[2]
        return Range(content, int(size) if size else len(content))

    def write(self, path: str, content: bytes) -> None:
        """Write an object as a whole, in place of another one."""
        if len(content) > IN_ONE:
            with self.create_large(path) as file:
                file.write(content)
        else:
            bucket, key = bucket_and_key(path)
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        try:
            self.size(path)
        except Exception as error:
            if http_status(error) != MISSING:
                raise
            return False
        return True

    def below(self, prefix: str) -> Iterable[ListedFile]:
        """All objects whose paths begin so."""
        bucket, key = bucket_and_key(prefix)
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
            for each in page.get("Contents", ()):
                written = round(each["LastModified"].timestamp() * 1e9)
                yield ListedFile(f"s3://{bucket}/{each['Key']}", each["Size"], written, each.get("ETag", ""))

    def answers(self, prefix: str) -> None:
        """Ask once for an object whose path begins so."""
        bucket, key = bucket_and_key(prefix)
        self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; some may not be there."""
        for bucket, keys in by_bucket(paths, _AT_ONCE):
            some = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
            for refused in self._client.delete_objects(Bucket=bucket, Delete=some).get("Errors", ()):
                raise OSError(f"s3://{bucket}/{refused['Key']}: {refused.get('Message') or refused.get('Code')}")

    def rename(self, source: str, target: str) -> None:
        """Copy an object, in place of another one, and delete it."""
        (bucket, key), (into, name) = bucket_and_key(source), bucket_and_key(target)
        try:
            self._client.copy_object(Bucket=into, Key=name, CopySource={"Bucket": bucket, "Key": key})
        except Exception as error:
            if http_status(error) != _TOO_LARGE:
                raise
            self._io().copy(source, target)  # in parts
        self._client.delete_object(Bucket=bucket, Key=key)

    def read_version(self, path: str) -> tuple[bytes, str]:
        """The content and its ETag."""
        bucket, key = bucket_and_key(path)
        answer = self._client.get_object(Bucket=bucket, Key=key)
        return answer["Body"].read(), answer["ETag"]

    def write_over(self, path: str, content: bytes, version: str | None) -> bool:
        """Write an object if its ETag is still this one; gives whether it was."""
        bucket, key = bucket_and_key(path)
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            self._client.put_object(Bucket=bucket, Key=key, Body=content, **condition)
        except Exception as error:
            if http_status(error) == _NOT_IMPLEMENTED:  # by another server than Amazon's
                return super().write_over(path, content, version)
            if http_status(error) not in (MISSING, _CONFLICT, _CHANGED) or "NoSuchBucket" in str(error):
                raise
            return self._has(path, content)
        return True
