"""Records of a topic in Avro without a broker, and what is made of them."""

from typing import Any, NamedTuple

import pyarrow as pa

from beam_joins.keys.opaque import python_values
from beam_joins.pipelines.changelogs.changelog_rows import plan_of
from beam_joins.pipelines.formats.changelog_columns import enveloped
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.systems.kafka.event_topics import EnvelopedRecords
from beam_joins.pipelines.systems.kafka.schema_registry import registry_settings
from tests.pipelines.naive_orders import Row
from tests.pipelines.streaming.registry import Registry

QUICK = {"retries.wait.ms": 1}


class Message(NamedTuple):
    """A record as the consumer of confluent-kafka gives it."""

    data: bytes | None
    place: int = 7
    key_data: bytes | None = b"k"

    def topic(self) -> str:
        return "shop"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.place

    def timestamp(self) -> tuple[int, int]:
        return 1, self.place

    def key(self) -> bytes | None:
        return self.key_data

    def value(self) -> bytes | None:
        return self.data


def records(registry: Registry, schema: pa.Schema | None = None, table: str = "", **settings: Any) -> EnvelopedRecords:
    return EnvelopedRecords("debezium", table, ("id",), plan(schema), registry_settings({"url": registry.url, **QUICK, **settings}))


def plan(schema: pa.Schema | None = None) -> ReadPlan:
    columns = enveloped(None)
    return plan_of(columns, ["id"], schema, columns.about_the_change())


def rows(actual: EnvelopedRecords, *values: bytes | None) -> list[Row]:
    """The rows of values, those in columns too, without what their envelopes say."""
    batches = [each.value for each in actual.piece(9, [Message(value, place) for place, value in enumerate(values)]).elements]
    of_change = [row for batch in batches for row in python_values(batch.to_struct_array())]
    made = [row.get("object", {name: value for name, value in row.items() if not name.startswith("(")}) for row in of_change]
    return [row for _, row in sorted(zip([row["(place)"] for row in of_change], made, strict=True), key=lambda pair: pair[0])]


def flat(name: str, *fields: tuple[str, Any], namespace: str = "shop") -> Row:
    """The schema of unwrapped events."""
    about = (("__deleted", "string"), ("__source_ts_ms", "long"), ("__source_lsn", "long"), ("__table", "string"))
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [{"name": each, "type": kind} for each, kind in (*fields, *about)],
    }


def unwrapped(lsn: int, table: str = "orders", **row: Any) -> Row:
    return {**row, "__deleted": "false", "__source_ts_ms": lsn, "__source_lsn": lsn, "__table": table}
