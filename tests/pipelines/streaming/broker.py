"""A Kafka broker of one node on loopback, as a child process."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from beam_joins.pipelines.runners.jars import Jar, provide

_START_SECONDS = 60.0
# records of the tests are from 1970: with a retention the broker deletes them after half a minute
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""


def broker_jars() -> list[Path]:
    """The jars of the lock file. Raises RunnerSetupError if one cannot be fetched."""
    lines = Path(__file__).with_name("kafka.lock").read_text("utf-8").splitlines()
    return provide([Jar.parse(line) for line in lines if not line.startswith("#")], of="Kafka")


@dataclass(frozen=True)
class Broker:
    """A broker that runs; `address` is for `bootstrap_servers`."""

    address: str
    process: "subprocess.Popen[bytes]"

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Within the block the broker answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @classmethod
    @contextmanager
    def started(cls, java: Path, jars: list[Path], directory: Path) -> Iterator["Broker"]:
        port, controller = _free_ports()
        properties = directory / "server.properties"
        properties.write_text(_PROPERTIES.format(port=port, controller=controller, data=directory / "data"), "utf-8")
        command = [str(java), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, jars))]
        formatting = [*command, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(properties)]
        subprocess.run(formatting, check=True, capture_output=True, cwd=directory)
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen([*command, "kafka.Kafka", str(properties)], stdout=log, stderr=subprocess.STDOUT, cwd=directory)
        try:
            _wait_for(port, process)
            yield cls(f"127.0.0.1:{port}", process)
        finally:
            process.kill()
            process.wait()

    def make_topic(self, name: str, *, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(30)

    def put(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None, int]],
        *,
        partitions: int = 1,
        first: int = 0,
        transaction: str = "",
    ) -> None:
        """Produce keys and values with a time in milliseconds, to so many partitions in turn, from the first
        on; in one transaction of that name.
        """
        from confluent_kafka import Producer

        settings: dict[str, object] = {"bootstrap.servers": self.address, "linger.ms": 5}
        producer = Producer(settings | ({"transactional.id": transaction} if transaction else {}))
        if transaction:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number, (key, value, millis) in enumerate(records):
            producer.produce(topic, value, key, first + number % partitions, on_delivery=_require_delivered, timestamp=millis)
            producer.poll(0)
        if transaction:
            producer.commit_transaction(30)
        assert producer.flush(30) == 0, "records were not delivered"


def _require_delivered(error: object, message: object) -> None:
    assert error is None, error


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.1)
    raise AssertionError(f"the broker did not start (exit code {process.poll()})")
