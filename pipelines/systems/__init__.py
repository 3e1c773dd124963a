"""The public readers and writers, one file each: ``from beam_joins.io import ReadChangelog, WriteDelta``.

Each is loaded on first use, so that those which need an extra of the package are there for who has it.

>>> from beam_joins.io import ReadParquet
>>> ReadParquet.__module__
'beam_joins.pipelines.systems.files.read_parquet'
"""

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from beam_joins.extras import MissingExtra

if TYPE_CHECKING:
    from beam_joins.pipelines.systems.delta.read_delta import ReadDelta
    from beam_joins.pipelines.systems.delta.write_delta import WriteDelta
    from beam_joins.pipelines.systems.files.read_change_events import ReadChangeEvents
    from beam_joins.pipelines.systems.files.read_changelog import ReadChangelog
    from beam_joins.pipelines.systems.files.read_growing_changelog import ReadGrowingChangelog
    from beam_joins.pipelines.systems.files.read_growing_files import ReadGrowingFiles
    from beam_joins.pipelines.systems.files.read_parquet import ReadParquet
    from beam_joins.pipelines.systems.files.read_snapshots import ReadSnapshots
    from beam_joins.pipelines.systems.files.write_changelog import WriteChangelog
    from beam_joins.pipelines.systems.files.write_parquet import WriteParquet
    from beam_joins.pipelines.systems.kafka.read_kafka import ReadKafka
    from beam_joins.pipelines.systems.kafka.read_kafka_change_events import ReadKafkaChangeEvents
    from beam_joins.pipelines.systems.kafka.write_kafka import WriteKafka
    from beam_joins.pipelines.systems.postgres.read_postgres import ReadPostgres
    from beam_joins.pipelines.systems.postgres.write_postgres import WritePostgres
    from beam_joins.pipelines.systems.write_big_query import WriteBigQuery
    from beam_joins.pipelines.systems.write_duck_lake import WriteDuckLake

__all__ = [
    "ReadChangeEvents",
    "ReadChangelog",
    "ReadDelta",
    "ReadGrowingChangelog",
    "ReadGrowingFiles",
    "ReadKafka",
    "ReadKafkaChangeEvents",
    "ReadParquet",
    "ReadPostgres",
    "ReadSnapshots",
    "WriteBigQuery",
    "WriteChangelog",
    "WriteDelta",
    "WriteDuckLake",
    "WriteKafka",
    "WriteParquet",
    "WritePostgres",
]

_SYSTEMS: Final = {
    "files": (
        *("ReadChangeEvents", "ReadChangelog", "ReadGrowingChangelog", "ReadGrowingFiles", "ReadParquet"),
        "ReadSnapshots",
        *("WriteChangelog", "WriteParquet"),
    ),
    "postgres": ("ReadPostgres", "WritePostgres"),
    "kafka": ("ReadKafka", "ReadKafkaChangeEvents", "WriteKafka"),
    "delta": ("ReadDelta", "WriteDelta"),
}
"""The folders of systems with several modules, and their readers and writers."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return loaded(name)
    except MissingExtra as error:  # so that "import *" gives the others
        return _without_extra(name, str(error))


def loaded(name: str) -> Any:
    """The reader or writer of a name. Raises MissingExtra for one that needs a package which is not installed."""
    file = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    system = next((f"{system}." for system, names in _SYSTEMS.items() if name in names), "")
    return getattr(import_module(f"beam_joins.pipelines.systems.{system}{file}"), name)


def _without_extra(name: str, why: str) -> type[Any]:
    """A class in the place of a reader or writer, whose construction says what is missing."""

    def refuse(*args: Any, **options: Any) -> None:
        raise MissingExtra(why)

    return type(name, (), {"__init__": refuse, "__doc__": why})


def __dir__() -> list[str]:
    return sorted(__all__)
