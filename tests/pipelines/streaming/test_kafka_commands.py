"""The commands read topics: in one run and in incremental runs, from their offsets, they give what the same lines in files give."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.orders_run import ENVIRONMENT, Run
from tests.pipelines.streaming.jobs import wait_until
from tests.pipelines.test_envelopes import debezium

pytestmark = pytest.mark.flink  # the broker needs a Java, as Flink does

OPTIONS = ["--left-key", "id", "--right-key", "id", "--foreign-key", "by", "--how", "left", "--select", "left.id, left.n, right.name"]


def orders(numbers: range) -> list[bytes | None]:
    rows = [
        {"id": n % 7, "by": n % 3, "n": n / 4, "op": "d" if n % 5 == 4 else "u", "lsn": 10 * n, "updated_at": n * 1_000_000}
        for n in numbers
    ]
    return [None if each is None else json.dumps(each, indent=1).encode() for each in debezium(rows, "orders", "id")]


def customers(numbers: range) -> list[bytes | None]:
    rows = [{"id": n % 3, "name": f"name {n}", "op": "u", "lsn": 10 * n + 5, "updated_at": n * 1_000_000} for n in numbers]
    return [None if each is None else json.dumps(each).encode() for each in debezium(rows, "customers", "id")]


def address(broker: Any, topic: str) -> str:
    return f"kafka://{broker.address}/{topic}?format=debezium&client.id=secret"


def put(broker: Any, topic: str, values: list[bytes | None]) -> None:
    for partition in range(2):  # changes of a row are in one partition
        broker.put(topic, [(b"k", value, 1) for value in values if _id(value) % 2 == partition], first=partition)


def _id(value: bytes | None) -> int:
    event = json.loads(value or b"{}")
    return int((event.get("after") or event.get("before") or {"id": 0})["id"])


def lines(values: list[bytes | None]) -> str:
    return "".join((value or b"null").decode().replace("\n", " ") + "\n" for value in values)


def test_topics_give_what_the_same_lines_in_files_give_at_once_and_in_runs_that_go_on(broker: Any, beam_joins: Run) -> None:
    topics = {"shop.orders": orders, "shop.customers": customers}
    for topic in topics:
        broker.make_topic(topic, partitions=2)
    Path("orders.jsonl").write_text(lines(orders(range(1, 60))))
    Path("customers.jsonl").write_text(lines(customers(range(1, 60))))
    files = ["--left", "orders.jsonl", "--left-format", "debezium", "--right", "customers.jsonl", "--right-format", "debezium"]
    assert beam_joins("join", *files, *OPTIONS, "--output", "c.jsonl", "--latest", "l.jsonl").code == 0
    read = ["join", "--left", address(broker, "shop.orders"), "--right", address(broker, "shop.customers"), *OPTIONS]
    state = ["--state-dir", "state", "--changes", "changes", "--latest", "now.jsonl"]
    refused = beam_joins(*read, *state)
    assert (refused.code, "there are no records in kafka://" in refused.err) == (2, True), refused
    for numbers in (range(1, 20), range(20, 41), range(41, 60)):
        for topic, values in topics.items():
            put(broker, topic, values(numbers))
        ran = beam_joins(*read, *state)
        assert ran.code == 0, ran.err
        assert "topic shop.orders: " in ran.out
        assert beam_joins(*read, *state).out == "no new records: nothing to do\n"
    changes = "".join(path.read_text() for path in sorted(Path("changes").iterdir()))
    assert changes == Path("c.jsonl").read_text()
    assert Path("now.jsonl").read_text() == Path("l.jsonl").read_text()
    ran = beam_joins(*read, "--output", "alone.jsonl", "--latest", "alone-now.jsonl")
    assert ran.code == 0, ran.err
    assert Path("alone.jsonl").read_text() == changes
    looked = beam_joins(*read, "--output", "looked.jsonl", "--dry-run")
    assert looked.code == 0, looked.err
    assert "ForeignKeyJoin(by refers to id, how=left)" in looked.out
    assert not any(b"secret" in path.read_bytes() for path in Path("state").rglob("*") if path.is_file())
    assert "secret" not in ran.out + looked.out
    assert not any(Path("state").rglob("*.jsonl"))


def test_a_topic_of_both_tables_is_read_once_and_one_that_has_lost_records_or_was_made_anew_is_refused(
    broker: Any, beam_joins: Run
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.make_topic("shop", partitions=1)
    both = f"kafka://{broker.address}/shop?format=debezium"
    read = ["join", "--left", both, "--left-table", "orders", "--right", both, "--right-table", "customers", *OPTIONS]
    read += ["--state-dir", "state", "--latest", "now.jsonl"]
    values = [*orders(range(1, 4)), *customers(range(1, 4))]
    broker.put("shop", [(b"k", value, 1) for value in values])
    ran = beam_joins(*read)
    assert ran.code == 0, ran.err
    assert ran.out.count("topic shop: 6 records") == 1, ran.out
    assert sorted(json.loads(line)["name"] for line in Path("now.jsonl").read_text().splitlines()) == ["name 1", "name 2", "name 3"]
    broker.put("shop", [(b"k", value, 1) for value in customers(range(4, 6))])
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_records([TopicPartition("shop", 0, 7)])[TopicPartition("shop", 0)].result(30)
    lost = beam_joins(*read)
    assert (lost.code, "the topic shop has lost records of partition 0 that no run has read" in lost.err) == (2, True), lost
    admin.delete_topics(["shop"])["shop"].result(30)
    wait_until(lambda: "shop" not in admin.list_topics(timeout=10).topics)
    broker.make_topic("shop", partitions=1)
    broker.put("shop", [(b"k", value, 1) for value in customers(range(4, 14))])
    anew = beam_joins(*read)
    assert (anew.code, "the topic shop was made anew since the last run" in anew.err) == (2, True), "though it is longer by now"
    other = beam_joins(*[each.replace("?", "?client.id=x&") if each == both and n > 2 else each for n, each in enumerate(read)])
    assert "the topic shop is read from two brokers, or with two settings" in other.err


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("kafka://localhost:9092/t", "--left: give the envelopes of the topic: ?format=debezium or ?format=maxwell in the address"),
        ("kafka://localhost:9092/?format=debezium", "the address of a topic is of the form kafka://HOST:PORT/TOPIC?format=debezium"),
        ("kafka://localhost:9092/t?format=wal2json", "--left: give the envelopes of the topic"),
        (
            "kafka://localhost:9092/t?format=debezium&schema_registry=http://r",
            "for Avro of a schema registry use ReadKafkaChangeEvents",
        ),
        ("kafka://localhost:9092/t?format=debezium&no.such=1", "No such configuration property"),
        ("kafka://{broker}/nowhere?format=debezium", "the topic nowhere cannot be read"),
    ],
)
def test_a_topic_that_cannot_be_read_is_refused_in_a_sentence(broker: Any, beam_joins: Run, topic: str, message: str) -> None:
    left = topic.replace("{broker}", broker.address)
    for more in ([], ["--dry-run"], ["--state-dir", "state"]):
        ran = beam_joins("join", "--left", left, "--right", "r.jsonl", "--left-key", "id", "--latest", "now.jsonl", *more)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran
        assert message in ran.err


def test_a_broker_that_does_not_answer_is_waited_for(broker: Any, beam_joins: Run) -> None:
    broker.make_topic("still.customers", partitions=2)
    put(broker, "still.customers", customers(range(1, 20)))
    options = [
        "--input",
        address(broker, "still.customers"),
        "--key",
        "id",
        "--state-dir",
        "state",
        "--latest",
        "now.jsonl",
        "--follow",
    ]
    command = [sys.executable, "-m", "beam_joins", "table", *options, "--every", "200ms"]
    with open("err.txt", "wb") as err, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, env=ENVIRONMENT) as process:
        try:
            wait_until(lambda: Path("now.jsonl").exists())
            with broker.standing_still():
                wait_until(lambda: "next attempt in 1 s (--retry-for)" in Path("err.txt").read_text())
            put(broker, "still.customers", customers(range(20, 41)))
            wait_until(lambda: "name 40" in Path("now.jsonl").read_text())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert all("no Kafka broker at" in line for line in Path("err.txt").read_text().splitlines())


def values(broker: Any, topic: str) -> list[tuple[str, Any]]:
    """The keys and values of a topic of one partition that are committed."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": broker.address, "group.id": "tests", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = list[tuple[str, Any]]()
    while (message := consumer.poll(10)) is not None and message.error() is None:
        read.append((message.key().decode(), json.loads(message.value() or b"null")))
    consumer.close()
    return read


def test_runs_that_go_on_write_their_changes_to_a_topic_once_each(broker: Any, beam_joins: Run) -> None:
    files = ["--left", "orders*.jsonl", "--left-format", "debezium", "--right", "customers*.jsonl", "--right-format", "debezium"]
    topic = f"kafka://{broker.address}/enriched?partitions=1"
    written = ["join", *files, *OPTIONS, "--state-dir", "state", "--changes", "changes", "--to"]
    for numbers in (range(1, 20), range(20, 60)):
        Path(f"orders{numbers.start}.jsonl").write_text(lines(orders(numbers)))
        Path(f"customers{numbers.start}.jsonl").write_text(lines(customers(numbers)))
        ran = beam_joins(*written, topic)
        assert ran.code == 0, ran.err
    changes = [json.loads(line) for path in sorted(Path("changes").iterdir()) for line in path.read_text().splitlines()]
    expected = [(str(each["key"]), each["new"] and {"id": each["key"], **each["new"]}) for each in changes]
    assert values(broker, "enriched") == expected
    assert any(value is None for _, value in expected)
    assert "nothing to do" in beam_joins(*written, topic).out
    looked = beam_joins(*written, f"{topic}&records=rows", "--dry-run")
    assert (looked.code, "records='rows': choose one of 'upserts', 'pairs', 'changes'" in looked.err) == (2, True), looked
