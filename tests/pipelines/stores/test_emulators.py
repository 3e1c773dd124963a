"""On emulators of S3, Google Cloud Storage and Azure Blob Storage: what is written there is byte for byte what a disk gets."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from tests import programs
from tests.pipelines.history import arrive, cut, tree
from tests.pipelines.orders_run import ENVIRONMENT, Run
from tests.pipelines.stores import emulators
from tests.pipelines.stores.client import write

STORES = {"s3": emulators.s3, "gcs": emulators.gcs, "azure": emulators.azure}
PLACES = {"s3": "s3://", "gcs": "gs://", "azure": f"azfs://{emulators.AZURE_ACCOUNT}/"}
Client = Callable[..., "subprocess.CompletedProcess[str]"]
EACH = pytest.mark.parametrize("store", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in STORES])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Mapping[str, str]]]:
    """The environment of a client of an emulator, which is started once."""
    started: dict[str, Mapping[str, str]] = {}
    running = []

    def environment(name: str) -> Mapping[str, str]:
        if name not in started:
            running.append(STORES[name](tmp_path_factory.mktemp(name)))
            started[name] = running[-1].__enter__()
        return started[name]

    yield environment
    for each in running:
        each.__exit__(None, None, None)


@pytest.fixture
def client(servers: Callable[[str], Mapping[str, str]], own_directory: Path) -> Client:
    """Runs :mod:`tests.pipelines.stores.client` for a store, with more in its environment."""

    def done(store: str, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        environment = {**ENVIRONMENT, **servers(store), **more}
        (site,) = programs.needed("Emulators of stores", programs.emulators()).glob("lib/python*/site-packages")
        command = [sys.executable, "-m", "tests.pipelines.stores.client", str(site), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    return done


def of_runs(prefix: str) -> list[str]:
    inputs = ["--orders", f"{prefix}in-of-tests/orders", "--customers", f"{prefix}in-of-tests/customers/"]
    results = ["--changes", f"{prefix}out-of-tests/runs/changes", "--latest", f"{prefix}out-of-tests/runs/latest.jsonl"]
    return [*inputs, "--state-dir", f"{prefix}state-of-tests/runs", *results, "--beam_joins_partitions=1"]


@EACH
def test_runs_write_what_they_write_on_a_disk_and_leave_nothing_hidden(
    run: Run, client: Client, small: SampleFiles, store: str
) -> None:
    place, (piece,) = PLACES[store], cut(small, 1)
    nobody = {**piece["customers"][-1], "customer_id": 10**6, "lsn": 10**9}  # its changes are an empty file
    for number, each in enumerate((piece, {"orders": [], "customers": [nobody]}), 1):
        arrive(number, each)
        if number == 1:
            Path("in-of-tests").symlink_to("in")
        assert client(store, "put", place, "in").returncode == 0
        ran = client(store, "orders", *of_runs(place))
        assert ran.returncode == 0, ran.stderr
        assert run(*of_runs("")).code == 0
    require_same(client, store, "runs")


@EACH
def test_writers_write_what_they_write_on_a_disk_and_leave_nothing_hidden(own_directory: Path, client: Client, store: str) -> None:
    for _ in range(2):  # the second one replaces what is there
        ran = client(store, "write", PLACES[store])
        assert ran.returncode == 0, ran.stderr
        write("")
    require_same(client, store, "written")


@pytest.mark.parametrize("store", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("s3", "azure")])
def test_an_object_is_written_only_over_the_version_that_was_read(client: Client, store: str) -> None:  # unknown to Google's emulator
    ran = client(store, "conditions", PLACES[store])
    assert ran.returncode == 0, ran.stderr


def require_same(client: Client, store: str, folder: str) -> None:
    assert client(store, "get", f"{PLACES[store]}out-of-tests/{folder}", f"copy/{folder}").returncode == 0
    expected, copy = tree(f"out-of-tests/{folder}"), tree(f"copy/{folder}")
    actual = {path.replace("copy", "out-of-tests", 1): content for path, content in copy.items()}
    assert sorted(actual) == sorted(expected)
    parquet = {path for path in expected if path.endswith(".parquet")}  # which say in which run they were written
    assert {path: actual[path] for path in actual.keys() - parquet} == {path: expected[path] for path in expected.keys() - parquet}


@EACH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--orders", "{}nowhere-of-tests/o.jsonl"],
            "orders: {}nowhere-of-tests/o.jsonl cannot be reached: there is no {bucket}nowhere-of-tests",
        ),
        (["--orders", "{}in-of-tests/nothing"], "orders: there is no file {}in-of-tests/nothing"),
        (["--changes", "{}nowhere-of-tests/c"], "cannot be reached: there is no {bucket}nowhere-of-tests"),
        (["--state-dir", "{}nowhere-of-tests/s"], "{}nowhere-of-tests/s cannot be reached: there is no {bucket}nowhere-of-tests"),
    ],
)
def test_what_is_not_there_is_one_sentence(client: Client, small: SampleFiles, store: str, given: list[str], message: str) -> None:
    place = PLACES[store]
    inputs = ["--orders", str(small.orders), "--customers", str(small.customers), "--state-dir", "state", "--changes", "changes"]
    ran = client(store, "orders", *inputs, *(each.format(place) for each in given))
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr
    bucket = f"container {emulators.AZURE_ACCOUNT}/" if store == "azure" else "bucket "
    assert message.format(place, bucket=bucket) in ran.stderr


REFUSES = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("store", "more"),
    [
        pytest.param("s3", {"AWS_ENDPOINT_URL": REFUSES}, marks=pytest.mark.s3),
        pytest.param(
            "s3", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"}, marks=pytest.mark.s3
        ),
        pytest.param("gcs", {"STORAGE_EMULATOR_HOST": REFUSES}, marks=pytest.mark.gcs),
        pytest.param("gcs", {"GOOGLE_APPLICATION_CREDENTIALS": "/none", "STORAGE_EMULATOR_HOST": REFUSES}, marks=pytest.mark.gcs),
        *(
            pytest.param(
                "azure", {"AZURE_STORAGE_CONNECTION_STRING": connection, "AZURE_TOKEN_CREDENTIALS": "dev"}, marks=pytest.mark.azure
            )
            # nothing listens, no credentials, not one of this account, none at all
            for connection in (emulators.azure_connection(REFUSES), "", emulators.azure_connection(REFUSES, "another"), "other=text")
        ),
    ],
)
def test_a_store_that_does_not_let_one_in_is_one_sentence(
    client: Client, small: SampleFiles, store: str, more: dict[str, str]
) -> None:
    inputs = ["--orders", f"{PLACES[store]}in-of-tests/o.jsonl", "--customers", str(small.customers), "--output", "e.jsonl"]
    ran = client(store, "orders", *inputs, **more)
    is_away = REFUSES in (more.get("AWS_ENDPOINT_URL"), more.get("STORAGE_EMULATOR_HOST")) or more.get(
        "AZURE_STORAGE_CONNECTION_STRING"
    ) == emulators.azure_connection(REFUSES)
    assert ran.returncode == (1 if is_away else 2), ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert "in-of-tests/o.jsonl cannot be reached: " in ran.stderr
