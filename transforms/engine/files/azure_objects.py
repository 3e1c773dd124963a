"""Blobs of Azure, by its client."""

import base64
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import uuid4

from apache_beam.internal.azure.auth import get_service_credentials
from apache_beam.io.azure.blobstorageio import parse_azfs_path
from apache_beam.options.pipeline_options import AzureOptions, PipelineOptions

from beam_joins.errors import http_status
from beam_joins.transforms.engine.files.object_streams import IN_ONE, Range
from beam_joins.transforms.engine.files.objects import MISSING, ListedFile, ListedObjects, bucket_and_key, by_bucket

_CONFLICT, _CHANGED, _NO_RANGE = 409, 412, 416
_AT_ONCE: Final = 256
"""The most blobs that a request deletes."""
_SECONDS: Final = 0.2
"""The seconds between two questions whether a blob has been copied."""


class AzureObjects(ListedObjects):
    """Blobs of Azure; a version is an ETag. An account without an address in the options has that of Azure's public cloud."""

    def __init__(self, options: PipelineOptions) -> None:
        from azure.core import MatchConditions  # noqa: PLC0415  # only where it is used
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415

        super().__init__(options)
        self._service, self._unchanged = BlobServiceClient, MatchConditions.IfNotModified
        self._containers = dict[str, Any]()
        if not (logger := logging.getLogger("azure")).level:
            logger.setLevel(logging.ERROR)  # it logs each request, and each credential that it lacks

    def _container(self, path: str) -> Any:
        account, container, _ = parse_azfs_path(path, blob_optional=True, get_account=True)
        if (place := f"{account}/{container}") not in self._containers:
            self._containers[place] = self._account(account).get_container_client(container)
        return self._containers[place]

    def _account(self, name: str) -> Any:
        azure, sizes = self._options.view_as(AzureOptions), {"max_single_get_size": IN_ONE, "max_chunk_get_size": IN_ONE}
        connection = azure.azure_connection_string or os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
        if connection:
            client = self._service.from_connection_string(connection, **sizes)
        else:
            address = azure.blob_service_endpoint or f"https://{name}.blob.core.windows.net"
            client = self._service(address, credential=get_service_credentials(self._options), **sizes)
        if client.account_name not in (None, "", name):
            raise ValueError(f"the options and variables of Azure name the account {client.account_name}, the path {name}")
        return client

    def _blob(self, path: str) -> Any:
        return self._container(path).get_blob_client(bucket_and_key(path)[1])

    def create_large(self, path: str) -> Any:
        """A new object, by blocks."""
        return _Blocks(self._blob(path))

    def size(self, path: str) -> int:
        """The size of an object in bytes."""
        return int(self._blob(path).get_blob_properties().size)

    def read(self, path: str) -> bytes:
        """The whole content."""
        return self.read_version(path)[0]

    def read_range(self, path: str, start: int, stop: int) -> Range:
        """The bytes from a place up to another one, none behind the end."""
        try:
            answer = self._blob(path).download_blob(start, stop - start)
            return Range(answer.readall(), int(answer.properties.content_range.rpartition("/")[2]))
        except Exception as error:
            if http_status(error) != _NO_RANGE:
                raise
            return Range(b"")  # it is empty, or ends here

    def write(self, path: str, content: bytes) -> None:
        """Write an object as a whole, in place of another one."""
        self._blob(path).upload_blob(content, overwrite=True)

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        return bool(self._blob(path).exists())

    def below(self, prefix: str) -> Iterable[ListedFile]:
        """All objects whose paths begin so, without the folders of a Data Lake."""
        bucket, key = bucket_and_key(prefix)
        for blob in self._container(prefix).list_blobs(name_starts_with=key, include=["metadata"]):
            if "hdi_isfolder" not in (blob.metadata or {}):
                written, digest = round(blob.last_modified.timestamp() * 1e9), blob.content_settings.content_md5 or b""
                yield ListedFile(f"azfs://{bucket}/{blob.name}", blob.size, written, digest.hex())

    def answers(self, prefix: str) -> None:
        """Ask once for an object whose path begins so."""
        key = bucket_and_key(prefix)[1]
        next(iter(self._container(prefix).list_blobs(name_starts_with=key, results_per_page=1, retry_total=0)), None)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; some may not be there."""
        for bucket, keys in by_bucket(paths, _AT_ONCE):
            answers = self._container(f"azfs://{bucket}/").delete_blobs(*keys, raise_on_any_failure=False)
            for key, answer in zip(keys, answers, strict=True):
                if answer.status_code >= 300 and answer.status_code != MISSING:
                    raise OSError(f"azfs://{bucket}/{key}: the store answered {answer.status_code} to its deletion")

    def rename(self, source: str, target: str) -> None:
        """Copy an object, in place of another one, and delete it."""
        blob = self._blob(target)
        state = blob.start_copy_from_url(self._blob(source).url)["copy_status"]
        while state == "pending":
            time.sleep(_SECONDS)
            state = blob.get_blob_properties().copy.status
        if state != "success":
            raise OSError(f"{source} could not be copied to {target}: {state}")
        self.delete([source])

    def read_version(self, path: str) -> tuple[bytes, str]:
        """The content and its ETag."""
        answer = self._blob(path).download_blob()
        return answer.readall(), answer.properties.etag

    def write_over(self, path: str, content: bytes, version: str | None) -> bool:
        """Write an object if its ETag is still this one; gives whether it was."""
        condition = {} if version is None else {"etag": version, "match_condition": self._unchanged}
        try:
            self._blob(path).upload_blob(content, overwrite=version is not None, **condition)
        except Exception as error:
            if http_status(error) not in (MISSING, _CONFLICT, _CHANGED) or "ContainerNotFound" in str(error):
                raise
            return self._has(path, content)
        return True


class _Blocks:
    """A blob that is written in blocks."""

    def __init__(self, blob: Any) -> None:
        self._blob, self._attempt = blob, uuid4().hex
        self._held, self._names = bytearray(), list[str]()

    def write(self, data: Any) -> None:
        """Write all bytes."""
        self._held += data
        if len(self._held) >= IN_ONE:
            self._send()

    def _send(self) -> None:
        name = base64.b64encode(f"{self._attempt}{len(self._names):06}".encode()).decode()
        self._blob.stage_block(name, bytes(self._held))
        self._names.append(name)
        self._held.clear()

    def close(self) -> None:
        """Have the object in the store."""
        if self._held:
            self._send()
        self._blob.commit_block_list(self._names)
