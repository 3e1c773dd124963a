"""The commands of the page on a cluster whose machines have addresses, loopbacks, disks and processes of their own.

A machine is a set of Linux namespaces without a folder that others could write into or see its files in. All of it vanishes with the
processes.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from beam_joins.pipelines.commands.sample.sample_files import SampleFiles
from beam_joins.pipelines.runners.spark_server import spark_jars
from tests.pipelines.history import cut
from tests.pipelines.orders_run import ENVIRONMENT, write
from tests.pipelines.spark_cluster import Processes, said
from tests.pipelines.test_commands_for_clusters import PATH, ROOT, changed, commands, of_client, of_orders, orders, packages
from tests.pipelines.test_spark_cluster import contents

pytestmark = [pytest.mark.spark, pytest.mark.sweep, pytest.mark.timeout(900)]

NETWORK = """
set -e
mount -t tmpfs none /run
ip link add name bridge0 up type bridge
for name; do
    ip netns add $name
    ip link add name at-$name up master bridge0 type veth peer name eth0 netns $name
    ip -n $name address add 10.0.0.$((++number))/24 dev eth0
    ip -n $name link set eth0 up
    ip -n $name link set lo up
    echo 10.0.0.$number $name >> hosts
done
echo 127.0.0.1 localhost >> hosts
echo ready
exec cat
"""
"""A network of machines with these names; it ends with its standard input."""
ENTER = """
set -e
cd $1
hostname $0
mount --bind hosts /etc/hosts
mount --bind $0 /tmp
mount -t tmpfs none /dev/shm
mount -o remount,bind,ro /
cd $2
unset SPARK_LOCAL_IP TMPDIR
exec "${@:3}"
"""
"""A program on the machine, whose disk is the folder of its name."""
STORE = """
import pathlib, threading
from tests.pipelines.stores.emulators import s3
with s3(pathlib.Path("/tmp"), "store", 9000):
    print("S3 has started", flush=True)
    threading.Event().wait()
"""
CLIENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": "http://store:9000",
    "PYTHONPATH": f"/tmp/packages{os.pathsep}{ENVIRONMENT['PYTHONPATH']}",
}
_OUT, _STATE = "s3://out-of-tests/refused/", "s3://out-of-tests/refused/state"
_DEPLOY, _RUN_SECONDS = "org.apache.spark.deploy", 200
EXECUTORS = [
    "--python_workers=1",
    "--spark_conf=spark.executor.cores=1",
    "--spark_conf=spark.executor.memory=500m",
    "--spark_conf=spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
]


class Machine(Processes):
    """The programs of one machine; its disk, which is its ``/tmp``, is there when they have ended."""

    def __init__(self, name: str, network: int, directory: Path) -> None:
        super().__init__(directory)
        self.name, self.disk = name, directory / name
        self._enter = ["nsenter", f"--target={network}", "--preserve-credentials", "--user", "--net", "--mount"]
        self._enter += ["setpriv", "--pdeathsig=KILL", "ip", "netns", "exec", name]
        self._enter += ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._enter += ["bash", "-c", ENTER, name, str(directory), str(ROOT)]
        (self.disk / "packages").mkdir(parents=True)
        packages(self.disk / "packages")

    def start(self, name: str, *command: object, environment: Mapping[str, str] = {}) -> Path:
        """Start a program; the path of its log."""
        environment = {**ENVIRONMENT, **PATH, **CLIENT, **environment}
        return super().start(f"{self.name}-{name}", *self._enter, *command, environment=environment)

    def run(self, name: str, *command: object) -> tuple[int, str]:
        """Run a program; its exit code and what it says."""
        log = self.start(name, *command)
        return self.started[-1].wait(_RUN_SECONDS), log.read_text()

    def kill(self) -> None:
        """End all programs at once."""
        for process in self.started:
            process.kill()
            process.wait()

    def __exit__(self, *error: object) -> None:
        self.kill()


class Machines:
    """Spark, the page's worker pools and S3 on machines of one network."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        names = ("driver", "master", "worker-1", "worker-2", "store")
        space = ["unshare", "--user", "--map-root-user", "--net", "--mount", "bash", "-c", NETWORK, "network", *names]
        pipe = subprocess.PIPE
        network = stack.enter_context(subprocess.Popen(space, cwd=directory, text=True, stdin=pipe, stdout=pipe, stderr=pipe))
        stack.callback(network.kill)
        assert network.stdout
        assert network.stderr
        if network.stdout.readline() != "ready\n":
            pytest.skip(f"this system makes no network for machines: {network.stderr.read()}")
        machines = [stack.enter_context(Machine(name, network.pid, directory)) for name in names]
        self.driver, self.master, *self.workers, store = machines
        said(store.start("s3", sys.executable, "-c", STORE), "S3 has (started)")
        address = ("--host", "master", "--port", "7077", "--webui-port", "0")
        said(self.master.java("master", spark_jars(), f"{_DEPLOY}.master.Master", *address), "Starting Spark (master)")
        self.pools = dict[str, subprocess.Popen[bytes]]()
        for worker in self.workers:
            self.start(worker)

    def start(self, worker: Machine) -> None:
        """Start the programs of a worker's machine."""
        self.start_pool(worker)
        sizes = ("--host", worker.name, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", "/tmp/work")
        log = worker.java("worker", spark_jars(), f"{_DEPLOY}.worker.Worker", *sizes, "spark://master:7077")
        said(log, "Successfully (registered) with master")

    def start_pool(self, worker: Machine) -> None:
        """Start the page's worker pool."""
        command, _ = commands("Spark standalone")
        worker.start("pool", "bash", "-c", f"exec {command}")
        self.pools[worker.name] = worker.started[-1]

    def orders(self, inputs: str, outputs: str, *options: str) -> list[str]:
        """The page's command for the driver."""
        _, command = commands("Spark standalone")
        command = of_orders(changed(command, **{"HOST:7077": "master:7077"}), inputs, outputs)
        return ["bash", "-c", f"exec {command} {shlex.join([*EXECUTORS, *options])}"]

    def put(self, folder: Path) -> None:
        """Copy a folder onto the driver's disk, and into the store's inputs."""
        shutil.copytree(folder, self.driver.disk / "in", dirs_exist_ok=True)
        code, log = self.driver.run("put", *of_client("put", "s3://", "/tmp/in"))
        assert code == 0, log

    def results(self, name: str) -> dict[str, bytes]:
        """The results below a name in the store."""
        code, log = self.driver.run("get", *of_client("get", f"s3://out-of-tests/{name}", f"/tmp/results/{name}"))
        assert code == 0, log
        return contents(self.driver.disk / "results" / name)

    def tasks(self, worker: Machine) -> int:
        """The number of tasks that began on a machine."""
        return sum(log.read_text().count("Running task") for log in worker.disk.glob("work/*/*/stderr"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, small: SampleFiles) -> Path:
    """The inputs of two runs, and in ``out`` the results of these on one machine."""
    folder = tmp_path_factory.mktemp("inputs")
    for number, piece in enumerate(cut(small, 2), 1):
        (folder / "in" / str(number)).mkdir(parents=True)
        for side, rows in piece.items():
            write(str(folder / "in" / str(number) / f"{side}.jsonl"), *rows)
        orders("python -m pipelines.orders --orders ... --customers ...", f"{folder}/in/{number}/", f"{folder}/out/", {})
    return folder


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, inputs: Path) -> Iterator[Machines]:
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the repository lies in /tmp, which each machine has for itself")
    with ExitStack() as stack:
        machines = Machines(stack, tmp_path_factory.mktemp("machines"))
        machines.put(inputs / "in")
        yield machines


def test_runs_on_several_machines_give_the_bytes_of_one(machines: Machines, inputs: Path) -> None:
    for number in (1, 2):
        code, log = machines.driver.run("orders", *machines.orders(f"s3://in-of-tests/{number}/", "s3://out-of-tests/runs/"))
        assert code == 0, log
    assert all(map(machines.tasks, machines.workers)), "the run is one of several machines"
    assert machines.results("runs") == contents(inputs / "out") != {}


def test_a_machine_that_dies_in_mid_run_loses_nothing(machines: Machines, inputs: Path) -> None:
    dies, driver = machines.workers[0], machines.driver
    before, until = machines.tasks(dies), time.monotonic() + _RUN_SECONDS
    log = driver.start("orders", *machines.orders("s3://in-of-tests/1/", "s3://out-of-tests/dies/"))
    while machines.tasks(dies) == before:
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
    time.sleep(1)
    dies.kill()
    assert driver.started[-1].poll() is None, "the run is under way"
    if driver.started[-1].wait(_RUN_SECONDS):
        assert_sentence(log.read_text())
    for number in (1, 2):  # the first run again: it may have failed
        code, message = driver.run("orders", *machines.orders(f"s3://in-of-tests/{number}/", "s3://out-of-tests/dies/"))
        assert code == 0, message
    machines.start(dies)
    assert machines.results("dies") == contents(inputs / "out") != {}


@pytest.mark.parametrize(
    ("read", "written", "state", "sentence"),
    [
        ("/tmp/in/1/", _OUT, _STATE, r"\w+: /tmp/in/1/\w+.jsonl is not there on worker-[12]: all machines must"),
        ("/tmp/in/2/", _OUT, _STATE, r"\w+: /tmp/in/2/\w+.jsonl has 9 bytes on worker-[12], and had [0-9,]+ when"),
        ("s3://in-of-tests/1/", "/tmp/out/", _STATE, r"cannot write /tmp/out/.* is not there on worker-[12]: all machines must"),
        ("s3://in-of-tests/1/", _OUT, "/tmp/state", r"/tmp/state/.* is not there: all workers must reach the folder"),
    ],
    ids=["inputs that others have not", "inputs that others have in part", "results", "state"],
)
def test_a_disk_of_the_driver_alone_is_refused(machines: Machines, read: str, written: str, state: str, sentence: str) -> None:
    for worker in machines.workers:
        (worker.disk / "in" / "2").mkdir(parents=True, exist_ok=True)
        for side in ("orders", "customers"):
            (worker.disk / "in" / "2" / f"{side}.jsonl").write_text('{"lsn":1}')
    code, log = machines.driver.run("orders", *machines.orders(read, written, f"--state-dir={state}"))
    assert code in (1, 2), log
    assert re.search(f"^beam-joins orders: {sentence}", log, re.MULTILINE), log
    assert_sentence(log)
    assert machines.results("refused") == {}
    assert not [*machines.driver.disk.glob("out/*.jsonl"), *machines.driver.disk.glob("out/changes/*.jsonl")]


def test_a_machine_without_a_worker_pool_is_named(machines: Machines) -> None:
    *_, worker = machines.workers
    machines.pools[worker.name].kill()
    code, log = machines.driver.run("orders", *machines.orders("s3://in-of-tests/1/", "s3://out-of-tests/pool/"))
    machines.start_pool(worker)
    assert code == 1, log
    assert "beam-joins orders: no worker pool answers on worker-2: each" in log
    assert_sentence(log)


def assert_sentence(log: str) -> None:
    """A command said how it ended in one line."""
    (line,) = (line for line in log.splitlines() if not re.match(r"Spark's log: |run: \d+ s", line))
    assert line.startswith("beam-joins orders: "), log
