"""The tables elsewhere that results are merged into, by address: a row of :data:`TARGETS` for each writer that takes
one.

Nothing is imported before a writer is made, so that the command line knows the addresses without Beam.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.systems.kafka.kafka_address import kafka_address
from beam_joins.pipelines.systems.postgres.postgres_address import postgres_table

if TYPE_CHECKING:
    from beam_joins.pipelines.results.merge_once import MergedTable
    from beam_joins.transforms.connect.tables import TableType


class Address(NamedTuple):
    """An address as options of the writer, ``shown`` without secrets; ``name`` is that of the table."""

    shown: str
    name: str
    options: Mapping[str, Any]


class _Kind(NamedTuple):
    """A writer by its name in ``beam_joins.io``: the form and the beginnings of its addresses, and how they are parsed."""

    writer: str
    form: str
    begins: tuple[str, ...]
    parse: Callable[[str], Address]


class Target(NamedTuple):
    """The table at an address."""

    writer: str
    address: Address

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return self.address.shown

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.address.name

    @property
    def kind(self) -> str:
        """The kind of system, for names of files.

        >>> Target("WriteDelta", Address("delta:x", "x", {})).kind
        'delta'
        """
        return self.writer.removeprefix("Write").lower()

    def table(self, of_table: "TableType", key: Sequence[str]) -> "MergedTable":
        """The table for rows of these types, whose key has the columns ``key``.

        Raises ``ValueError`` for columns that it does not take, and for an extra that is missing.
        """
        from beam_joins.pipelines import systems  # noqa: PLC0415  # with Beam

        table: MergedTable = getattr(systems, self.writer)(**self.address.options, key=key).merged(of_table)
        return table


def _postgres(address: str) -> Address:
    conninfo, _, _, table, shown = postgres_table(address)
    return Address(f"{shown}, table {table}", table, {"conninfo": conninfo, "table": table, "create": True})


def _path(address: str) -> Address:
    path = address.partition(":")[2]
    if not path:
        raise InputError(f"name a folder behind {address}")
    return Address(address, path, {"path": path})


def _lake(address: str) -> Address:
    catalog, _, table = address.partition(":")[2].partition("?table=")
    if not catalog or not table:
        raise InputError(f"name a catalog and a table, as in ducklake:lake.ducklake?table=orders, not {address}")
    return Address(address, table, {"catalog": catalog, "table": table})


def _big_query(address: str) -> Address:
    table = address.partition(":")[2]
    if table.count(".") < 2:
        raise InputError(f"name a table, as in bigquery:PROJECT.DATASET.TABLE, not {address}")
    return Address(address, table, {"table": table})


def _topic(address: str) -> Address:
    topic = kafka_address(address, _OF_TOPICS)
    options: dict[str, Any] = dict(topic.options)
    if (count := options.get("partitions")) is not None:
        if not count.isdecimal():
            raise InputError(f"partitions={count}: give a whole number")
        options["partitions"] = int(count)
    servers = topic.config.pop("bootstrap.servers")
    return Address(topic.shown, topic.topic, {"topic": topic.topic, "bootstrap_servers": servers, "config": topic.config, **options})


_OF_TOPICS: Final = ("records", "key_format", "value", "schema_registry", "table", "partitions", "application")
TARGETS: Final = (
    _Kind("WritePostgres", "postgres://HOST/DATABASE?table=NAME", ("postgres://", "postgresql://"), _postgres),
    _Kind("WriteDelta", "delta:PATH", ("delta:",), _path),
    _Kind("WriteDuckLake", "ducklake:PATH?table=NAME", ("ducklake:",), _lake),
    _Kind("WriteKafka", "kafka://HOST:PORT/TOPIC", ("kafka://",), _topic),
    _Kind("WriteBigQuery", "bigquery:PROJECT.DATASET.TABLE", ("bigquery:",), _big_query),
)
FORMS: Final = " or ".join(each.form for each in TARGETS)
"""The forms of addresses, for people."""


def target_at(option: str, address: str) -> Target:
    """The table at an address; raises InputError for one of no known form.

    >>> target_at("--to", "delta:s3://lake/orders").address.options
    {'path': 's3://lake/orders'}
    """
    for each in TARGETS:
        if address.startswith(each.begins):
            try:
                return Target(each.writer, each.parse(address))
            except InputError as error:
                raise InputError(f"{option}: {error}") from error
    raise InputError(f"{option}: give the address of a table, {FORMS}")
