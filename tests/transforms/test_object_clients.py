"""Clients of stores of objects: what is asked of them, and how often; those of S3 are tried on its emulator."""

import io
import os
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.transforms.engine.files import object_streams
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
    content = os.urandom(20 << 20)
    google.write(PATH, content)
    with google.open(PATH) as file:
        assert file.read(10) == content[:10]
        assert (file.seek(-10, io.SEEK_END), file.read()) == (len(content) - 10, content[-10:])
        assert (file.seek(1), file.read()) == (1, content[1:])
        assert (file.seek(len(content) + 5), file.read()) == (len(content) + 5, b"")
    google.write(PATH, b"")
    with google.open(PATH) as file:
        assert file.read() == b""


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
    assert (whole, parts.getvalue()) == ([b"", b"abcdef"], b"0123456789abc")
