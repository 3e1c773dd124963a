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
    files = [f"--{name}={inputs}in-of-tests/{name}.jsonl" for name in ("orders", "customers")]
    results = [f"--changes={outputs}out-of-tests/changes", f"--latest={outputs}out-of-tests/latest.jsonl"]
    options = " ".join([*files, *results, f"--state-dir={outputs}state-of-tests/state", "--beam_joins_partitions=2"])
    command = changed(command, **{"--orders ... --customers ...": options})
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**ENVIRONMENT, **PATH, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def inputs(small: SampleFiles, tmp_path: Path) -> Path:
    """A folder with files, and the results of a run on one machine."""
    (local := tmp_path / "local" / "in-of-tests").mkdir(parents=True)
    for path in (small.orders, small.customers):
        (local / Path(path).name).write_bytes(Path(path).read_bytes())
    orders("python -m pipelines.orders --orders ... --customers ...", f"{local.parent}/", f"{local.parent}/", {})
    return local.parent


def client(environment: Mapping[str, str], *arguments: object) -> None:
    command = [sys.executable, "-m", "tests.pipelines.stores.client", str(emulated()), *map(str, arguments)]
    subprocess.run(command, env={**ENVIRONMENT, **environment}, check=True, cwd=ROOT)


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
def test_a_cluster_of_spark_with_beams_pool_and_a_store_of_objects(store: Store, place: str, inputs: Path, tmp_path: Path) -> None:
    start_pool, run = commands("Spark standalone")
    with ExitStack() as stack:
        # boto3 and the client of Azure are packages of the emulators', behind those of this environment
        (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(emulated())!r})\n")
        environment = {**stack.enter_context(store(tmp_path)), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"}
        client(environment, "put", place, inputs / "in-of-tests")
        (tmp_path / "cluster").mkdir()
        cluster = stack.enter_context(spark_cluster(tmp_path / "cluster", workers=1))
        (port,) = free_ports(1)
        pool(stack, start_pool, port, tmp_path, environment)
        options = [f"--beam_joins_blocks={place}out-of-tests/blocks", *EXECUTORS]
        run = changed(run, **{"spark://HOST:7077": cluster.url, "localhost:50000": f"localhost:{port}"})
        orders(f"{run} {shlex.join(options)}", place, place, environment)
        client(environment, "get", f"{place}out-of-tests", tmp_path / "results")
        assert any(
            "blocks%2Fbeam_joins-blocks-" in log.read_text() or "blocks/beam_joins-blocks-" in log.read_text()
            for log in tmp_path.glob("*.log")
        )
    assert contents(tmp_path / "results") == contents(inputs / "out-of-tests") != {}


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
        orders(run, f"{inputs}/", f"{tmp_path / 'cluster'}/", {})
        assert "(state: RUNNING)" in (tmp_path / "server.log").read_text()
    assert contents(tmp_path / "cluster" / "out-of-tests") == contents(inputs / "out-of-tests") != {}


def pool(stack: ExitStack, command: str, port: int, directory: Path, environment: Mapping[str, str]) -> None:
    """Start the pool of the page."""
    processes = stack.enter_context(Processes(directory))
    processes.start(
        "pool", "bash", "-c", f"exec {changed(command, **{'50000': port})}", environment={**ENVIRONMENT, **PATH, **environment}
    )
