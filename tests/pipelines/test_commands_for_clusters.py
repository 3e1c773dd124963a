"""The commands of the page on clusters, run as they are written there: on Spark's own cluster with a store of objects, and on
YARN; results are byte for byte those of a run on one machine.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.runners.jars import CACHE, locked_jars, provide
from tests import programs
from tests.pipelines.orders_run import ENVIRONMENT
from tests.pipelines.spark_cluster import Processes, free_ports, home, said, spark_cluster, yarn_cluster
from tests.pipelines.stores import emulators
from tests.pipelines.test_spark_cluster import EXECUTORS, contents

pytestmark = [pytest.mark.spark, pytest.mark.sweep]

ROOT = Path(__file__).parents[2]
PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
Store = Callable[[Path], AbstractContextManager[dict[str, str]]]


def commands(section: str) -> Iterator[str]:
    """The commands of a section's first block, in order."""
    (block,) = re.findall(rf"^## {re.escape(section)}\n.*?^```sh\n(.*?)^```", page(), re.DOTALL | re.MULTILINE)
    yield from block.replace("\\\n", " ").splitlines()


def page() -> str:
    return (ROOT / "docs/on_a_cluster.md").read_text(encoding="utf-8")


def changed(command: str, **texts: object) -> str:
    """A command with other addresses and files; each of the texts must be in it."""
    for old, new in texts.items():
        assert old in command, (old, command)
        command = command.replace(old, str(new))
    return command


def orders(command: str, inputs: str, outputs: str, environment: Mapping[str, str]) -> None:
    """Run the command of the page in the clone; inputs and outputs are what their paths begin with."""
    done = subprocess.run(
        ["bash", "-c", of_orders(command, inputs, outputs)],
        cwd=ROOT,
        env={**ENVIRONMENT, **PATH, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def of_orders(command: str, inputs: str, outputs: str) -> str:
    """The command of the page with files and options of these tests."""
    files = [f"--{name}={inputs}{name}.jsonl" for name in ("orders", "customers")]
    results = [f"--changes={outputs}changes", f"--latest={outputs}latest.jsonl", f"--state-dir={outputs}state"]
    options = " ".join([*files, *results, "--beam_joins_partitions=2"])
    return changed(command, **{"--orders ... --customers ...": options})


@pytest.fixture
def inputs(small: SampleFiles, tmp_path: Path) -> Path:
    """A folder with files, and the results of a run on one machine."""
    (local := tmp_path / "local" / "in-of-tests").mkdir(parents=True)
    for path in (small.orders, small.customers):
        (local / Path(path).name).write_bytes(Path(path).read_bytes())
    orders("python -m pipelines.orders --orders ... --customers ...", f"{local}/", f"{local.parent}/out/", {})
    return local.parent


def client(environment: Mapping[str, str], *arguments: object) -> None:
    subprocess.run(of_client(*arguments), env={**ENVIRONMENT, **environment}, check=True, cwd=ROOT)


def of_client(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.pipelines.stores.client", str(emulated()), *map(str, arguments)]


def packages(folder: Path) -> str:
    """A path of Python's with boto3, a package of the emulators', behind the packages of this environment."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(emulated())!r})\n")
    return f"{folder}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"


def emulated() -> Path:
    (site,) = programs.needed("Emulators of stores", programs.emulators()).glob("lib/python*/site-packages")
    return site


@pytest.mark.parametrize(
    ("store", "place"),
    [
        pytest.param(emulators.s3, "s3://", id="S3", marks=pytest.mark.s3),
        pytest.param(emulators.gcs, "gs://", id="GCS", marks=pytest.mark.gcs),
        pytest.param(emulators.azure, f"azfs://{emulators.AZURE_ACCOUNT}/", id="Azure", marks=pytest.mark.azure),
    ],
)
def test_a_cluster_of_spark_with_a_worker_pool_and_a_store_of_objects(store: Store, place: str, inputs: Path, tmp_path: Path) -> None:
    start_pool, run = commands("Spark standalone")
    with ExitStack() as stack:
        environment = {**stack.enter_context(store(tmp_path)), "PYTHONPATH": packages(tmp_path)}
        client(environment, "put", place, inputs / "in-of-tests")
        (tmp_path / "cluster").mkdir()
        cluster = stack.enter_context(spark_cluster(tmp_path / "cluster", workers=1))
        (port,) = free_ports(1)
        pool(stack, start_pool, port, tmp_path, environment)
        options = [f"--beam_joins_blocks={place}out-of-tests/blocks", *EXECUTORS]
        run = changed(run, **{"spark://HOST:7077": cluster.url, "localhost:50000": f"localhost:{port}"})
        orders(f"{run} {shlex.join(options)}", f"{place}in-of-tests/", f"{place}out-of-tests/", environment)
        client(environment, "get", f"{place}out-of-tests", tmp_path / "results")
        texts = [log.read_text().replace("%2F", "/") for log in tmp_path.glob("*.log")]
        assert any("blocks/beam_joins-blocks-" in text for text in texts)
    assert contents(tmp_path / "results") == contents(inputs / "out") != {}


def test_a_job_server_on_yarn(inputs: Path, tmp_path: Path) -> None:
    start_pool, _ = commands("Spark standalone")
    jars, submit, run = commands("YARN")
    provide(locked_jars("spark"), cache=CACHE / "spark")
    with ExitStack() as stack:
        configuration = stack.enter_context(yarn_cluster(tmp_path))
        pool_port, port = free_ports(2)
        pool(stack, start_pool, pool_port, tmp_path, {})
        small = {
            "spark.executor.instances": 1,
            "spark.executor.memory": "500m",
            "spark.yarn.am.memory": "500m",
            "spark.driver.memory": "500m",
            "spark.driver.host": "127.0.0.1",
            "spark.yarn.stagingDir": tmp_path.as_uri(),
            "spark.yarn.jars": f"local:{home()['SPARK_HOME']}/jars/*",  # they need not be copied on one machine
        }
        options = "".join(f" --conf '{name}={value}'" for name, value in small.items())
        submit = changed(submit, **{"spark-submit": f"spark-submit{options}", "HOST": "127.0.0.1", "8099": port})
        server = f"{jars}\nexec {submit} --artifact-port=0 --expansion-port=0"
        environment = {**PATH, **home(), "HADOOP_CONF_DIR": str(configuration)}
        processes = stack.enter_context(Processes(tmp_path))
        said(processes.start("server", "bash", "-c", server, environment=environment), "JobService (started)", 120)
        run = changed(run, **{"HOST:8099": f"127.0.0.1:{port}", "localhost:50000": f"localhost:{pool_port}"})
        orders(run, f"{inputs}/in-of-tests/", f"{tmp_path / 'cluster' / 'out'}/", {})
        assert "(state: RUNNING)" in (tmp_path / "server.log").read_text()
    assert contents(tmp_path / "cluster" / "out") == contents(inputs / "out") != {}


def pool(stack: ExitStack, command: str, port: int, directory: Path, environment: Mapping[str, str]) -> None:
    """Start the pool of the page."""
    processes = stack.enter_context(Processes(directory))
    processes.start(
        "pool", "bash", "-c", f"exec {changed(command, **{'50000': port})}", environment={**ENVIRONMENT, **PATH, **environment}
    )
