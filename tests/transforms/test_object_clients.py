"""Clients of stores of objects: what is asked of them, and how often; those of S3 and of Azure are tried on emulators."""

import gzip
import io
import os
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.transforms.engine.files import azure_objects, object_streams, stored_files
from beam_joins.transforms.engine.files.azure_objects import AzureObjects
from beam_joins.transforms.engine.files.google_objects import GoogleObjects
from beam_joins.transforms.engine.files.object_clients import objects_at
from beam_joins.transforms.engine.files.objects import Objects
from beam_joins.transforms.engine.files.s3_objects import S3Objects
from tests import object_store
from tests.object_store import Store

PATH = "gs://bucket/a/b"


class Refused(Exception):
    """As the client's, which has the status of the answer."""

    code = 412


class NoRange(Exception):
    """As the client's for a range behind the end of an object."""

    code = 416


class Blob:
    """An object of Google Cloud Storage whose store keeps to conditions, and may say the generation of what it gives."""

    def __init__(self, stored: dict[str, tuple[bytes, int]], name: str, says_generation: bool) -> None:
        self.stored, self.name, self.says_generation = stored, name, says_generation
        self.size: int | None = None
        self.generation: int | None = None

    def upload_from_string(self, content: bytes, *, content_type: str, if_generation_match: int | None = None) -> None:
        assert content_type == "application/octet-stream"
        now = self.stored.get(self.name, (b"", 0))[1]
        if if_generation_match not in (None, now):
            raise Refused
        self.stored[self.name] = content, now + 1
        self.generation = now + 1

    def reload(self) -> None:
        content, self.generation = self.stored[self.name]
        self.size = len(content)

    def download_as_bytes(self, start: int = 0, end: int | None = None, if_generation_match: int | None = None) -> bytes:
        content, generation = self.stored[self.name]
        assert if_generation_match in (None, generation)
        if start >= len(content) and end is not None:
            raise NoRange
        self.generation = generation if self.says_generation else None
        return content[start : None if end is None else end + 1]


class Client:
    def __init__(self, says_generation: bool) -> None:
        self.stored = dict[str, tuple[bytes, int]]()
        self.says_generation = says_generation

    def bucket(self, name: str) -> "Client":
        assert name == "bucket"
        return self

    def blob(self, name: str) -> Blob:
        return Blob(self.stored, name, self.says_generation)


@pytest.fixture(params=[True, False], ids=["says-generation", "silent"])
def google(request: pytest.FixtureRequest) -> Any:
    made = object.__new__(GoogleObjects)
    made._client = Client(request.param)
    return made


def test_an_object_of_google_is_written_only_over_the_generation_that_was_read(google: Any) -> None:
    require_conditions(google, PATH)


def require_conditions(objects: Objects, path: str) -> None:
    assert objects.write_over(path, b"one", None)
    content, first = objects.read_version(path)
    assert content == b"one"
    assert not objects.write_over(path, b"other", None)
    assert objects.write_over(path, b"two", first)
    assert not objects.write_over(path, b"other", first)
    assert objects.read_version(path)[0] == objects.read(path) == b"two"


def test_a_write_on_a_condition_whose_answer_was_lost_was_done(google: Any) -> None:
    assert google.write_over(PATH, b"one", None)
    assert google.write_over(PATH, b"one", None)


def test_an_object_of_google_is_read_in_ranges(google: Any) -> None:
    require_ranges(google, PATH)


def require_ranges(objects: Objects, path: str) -> None:
    content = os.urandom(20 << 20)
    objects.write(path, content)
    with objects.open(path) as file:
        assert file.read(10) == content[:10]
        assert (file.seek(-10, io.SEEK_END), file.read()) == (len(content) - 10, content[-10:])
        assert (file.seek(1), file.read()) == (1, content[1:])
        assert (file.seek(len(content) + 5), file.read()) == (len(content) + 5, b"")
    objects.write(path, b"")
    with objects.open(path) as file:
        assert file.read() == b""


class AzureError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__()
        self.status_code = status_code


class AzureBlob:
    """A blob of a container, as Azure's client has it."""

    def __init__(self, container: "Container", name: str) -> None:
        self.container, self.name, self.url = container, name, f"https://account/container/{name}"
        self.blocks = dict[str, bytes]()

    @property
    def stored(self) -> tuple[bytes, str]:
        if self.name not in self.container.stored:
            raise AzureError(404)
        return self.container.stored[self.name]

    def upload_blob(self, content: bytes, *, overwrite: bool, etag: str | None = None, match_condition: str | None = None) -> None:
        there = self.container.stored.get(self.name)
        if (there and not overwrite) or match_condition not in (None, "unchanged"):
            raise AzureError(409)
        if match_condition and (there is None or there[1] != etag):
            raise AzureError(412)
        self.container.write(self.name, content)

    def download_blob(self, offset: int = 0, length: int | None = None) -> Any:
        content, etag = self.stored
        if length is not None and offset >= len(content):
            raise AzureError(416)
        some = content[offset:] if length is None else content[offset : offset + length]
        return SimpleNamespace(
            readall=lambda: some, properties=SimpleNamespace(etag=etag, content_range=f"bytes {offset}-9/{len(content)}")
        )

    def get_blob_properties(self) -> Any:
        return SimpleNamespace(size=len(self.stored[0]), copy=SimpleNamespace(status=self.container.copies.pop(0)))

    def start_copy_from_url(self, url: str) -> Any:
        self.container.write(self.name, self.container.stored[url.rpartition("/")[2]][0])
        return {"copy_status": self.container.copies.pop(0)}

    def stage_block(self, name: str, content: bytes) -> None:
        self.blocks[name] = content

    def commit_block_list(self, names: list[str]) -> None:
        assert len({len(name) for name in names}) == 1
        self.container.write(self.name, b"".join(self.blocks[name] for name in names))


class Container:
    """A container of Azure; ``copies`` are the states of a copy one after the other."""

    def __init__(self) -> None:
        self.stored = dict[str, tuple[bytes, str]]()
        self.copies = ["success"] * 9
        self.batches = list[int]()
        self.written = 0

    def write(self, name: str, content: bytes) -> None:
        self.written += 1
        self.stored[name] = content, f'"{self.written}"'

    def get_blob_client(self, name: str) -> AzureBlob:
        return AzureBlob(self, name)

    def delete_blobs(self, *names: str, raise_on_any_failure: bool) -> Any:
        self.batches.append(len(names))
        codes = [403 if name == "locked" else 202 if self.stored.pop(name, None) else 404 for name in names]
        return [SimpleNamespace(status_code=code) for code in codes]

    def list_blobs(self, name_starts_with: str, include: list[str]) -> Any:
        assert include == ["metadata"]
        stated = {"last_modified": datetime(2026, 1, 1, tzinfo=UTC), "content_settings": SimpleNamespace(content_md5=bytearray(b"~"))}
        folder = SimpleNamespace(name="a", size=0, metadata={"hdi_isfolder": "true"}, **stated)
        blobs = [SimpleNamespace(name=name, size=1, metadata=None, **stated) for name in self.stored]
        return [each for each in (folder, *blobs) if each.name.startswith(name_starts_with)]


IN_AZURE = "azfs://account/container/"


@pytest.fixture
def container() -> Container:
    return Container()


@pytest.fixture
def azure(container: Container) -> Any:
    made = object.__new__(AzureObjects)
    made._containers, made._unchanged = {"account/container": container}, "unchanged"
    return made


def test_a_blob_of_azure_is_written_only_over_the_version_that_was_read(azure: Any) -> None:
    require_conditions(azure, f"{IN_AZURE}a")
    assert azure.write_over(f"{IN_AZURE}a", b"two", None), "an answer that was lost"


def test_a_blob_of_azure_is_read_in_ranges(azure: Any) -> None:
    require_ranges(azure, f"{IN_AZURE}a/b")


def test_a_blob_of_azure_is_written_in_blocks_and_compressed(
    azure: Any, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_streams, "IN_ONE", 10)
    monkeypatch.setattr(azure_objects, "IN_ONE", 10)
    monkeypatch.setattr(stored_files, "objects_at", lambda path: azure)
    content = os.urandom(99)
    for name in ("raw", "rows.gz"):
        with stored_files.create_file(f"{IN_AZURE}{name}") as file:
            for begin in range(0, 99, 4):
                file.write(content[begin : begin + 4])
    assert container.stored["raw"][0] == gzip.decompress(container.stored["rows.gz"][0]) == content


def test_a_blob_of_azure_is_deleted_behind_a_copy_that_has_ended(azure: Any, container: Container) -> None:
    container.write("a", b"one")
    container.copies = ["pending", "pending", "failed"]
    with pytest.raises(OSError, match=f"{IN_AZURE}a could not be copied to {IN_AZURE}b: failed"):
        azure.rename(f"{IN_AZURE}a", f"{IN_AZURE}b")
    assert container.stored["a"][0] == b"one"
    container.copies = ["pending", "success"]
    azure.rename(f"{IN_AZURE}a", f"{IN_AZURE}b")
    assert {name: content for name, (content, _) in container.stored.items()} == {"b": b"one"}


def test_blobs_of_azure_are_deleted_many_at_a_time(azure: Any, container: Container) -> None:
    container.write("7", b"seven")
    azure.delete([f"{IN_AZURE}{number}" for number in range(300)])
    assert (container.stored, container.batches) == ({}, [256, 44])
    with pytest.raises(OSError, match=f"{IN_AZURE}locked: the store answered 403 to its deletion"):
        azure.delete([f"{IN_AZURE}locked"])


def test_folders_of_a_data_lake_of_azure_are_no_files(azure: Any, container: Container) -> None:
    container.write("a/b", b"1")
    assert [(file.path, file.digest) for file in azure.matching(f"{IN_AZURE}a**")] == [(f"{IN_AZURE}a/b", "7e")]


def test_a_path_of_another_account_of_azure_than_that_of_the_options_is_refused(azure: Any) -> None:
    azure._options = PipelineOptions(["--azure_connection_string=text"])
    azure._service = SimpleNamespace(from_connection_string=lambda connection, **_: SimpleNamespace(account_name=connection))
    with pytest.raises(ValueError, match="name the account text, the path another"):
        azure.read("azfs://another/container/a")
    with pytest.raises(ValueError, match="azfs://<storage-account>/<container>/<path>"):
        azure.read("azfs://account")


def test_a_client_is_kept_while_the_options_are_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions([]))
    first = objects_at("bucket://in/a")
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions([]))
    assert objects_at("bucket://out/b") is first
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions(["--s3_region_name=there"]))
    assert objects_at("bucket://out/b") is not first


def test_a_file_system_without_conditions_compares_before_it_writes(store: Store) -> None:
    require_conditions(Objects(PipelineOptions([])), "bucket://in/a")


class NotImplementedThere(Exception):
    code = 501


class Buckets:
    """A server with the requests of S3 that has no conditions."""

    def __init__(self) -> None:
        self.stored = dict[str, bytes]()

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **conditions: str) -> None:  # the names of boto3
        if conditions:
            raise NotImplementedThere
        self.stored[f"{Bucket}/{Key}"] = Body

    def get_object(self, *, Bucket: str, Key: str) -> Any:
        content = self.stored[f"{Bucket}/{Key}"]
        return {"Body": io.BytesIO(content), "ETag": f'"{hash(content)}"'}

    def head_object(self, *, Bucket: str, Key: str) -> Any:
        if f"{Bucket}/{Key}" not in self.stored:
            raise Missing
        return {"ContentLength": len(self.stored[f"{Bucket}/{Key}"])}


class Missing(Exception):
    code = 404


def test_a_server_with_the_requests_of_s3_and_no_conditions_compares_before_it_writes() -> None:
    made = object.__new__(S3Objects)
    made._client = Buckets()
    require_conditions(made, "s3://bucket/a/b")


def test_a_file_system_that_does_not_replace_files_does_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    create = object_store.ObjectStore.create

    def refusing(system: object_store.ObjectStore, path: str, *options: Any, **more: Any) -> Any:
        if path in store.objects:
            raise FileExistsError(path)
        return create(system, path, *options, **more)

    monkeypatch.setattr(object_store.ObjectStore, "has_dirs", lambda system: True)
    monkeypatch.setattr(object_store.ObjectStore, "create", refusing)
    objects = Objects(PipelineOptions([]))
    for content in (b"one", b"two"):
        objects.write("bucket://in/a", content)
        assert store.objects["bucket://in/a"] == content


class Parts(io.BytesIO):
    def close(self) -> None:  # so that the test sees the content
        pass


def test_a_small_object_is_written_at_once_and_a_large_one_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_streams, "IN_ONE", 10)
    whole, parts = list[bytes](), Parts()
    for pieces in ([], [b"abc", memoryview(b"def")], [b"0123456", b"789ab", b"c"]):
        with object_streams.ObjectWriter(whole.append, lambda: parts) as file:
            assert [file.write(each) for each in pieces] == [len(each) for each in pieces]
            assert file.tell() == sum(map(len, pieces))
    assert (whole, parts.getvalue()) == ([b"", b"abcdef"], b"0123456789abc")
