"""The public readers and writers, one file each: ``from beam_joins.io import ReadChangelog, WriteDelta``.

Each is loaded on first use, so that those which need an extra of the package are there for who has it.

>>> from beam_joins.io import ReadParquet
>>> ReadParquet.__module__
'beam_joins.pipelines.io.read_parquet'
"""

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_joins.pipelines.io.read_change_events import ReadChangeEvents
    from beam_joins.pipelines.io.read_changelog import ReadChangelog
    from beam_joins.pipelines.io.read_delta import ReadDelta
    from beam_joins.pipelines.io.read_growing_changelog import ReadGrowingChangelog
    from beam_joins.pipelines.io.read_growing_files import ReadGrowingFiles
    from beam_joins.pipelines.io.read_kafka import ReadKafka
    from beam_joins.pipelines.io.read_kafka_change_events import ReadKafkaChangeEvents
    from beam_joins.pipelines.io.read_parquet import ReadParquet
    from beam_joins.pipelines.io.read_postgres import ReadPostgres
    from beam_joins.pipelines.io.write_big_query import WriteBigQuery
    from beam_joins.pipelines.io.write_changelog import WriteChangelog
    from beam_joins.pipelines.io.write_delta import WriteDelta
    from beam_joins.pipelines.io.write_duck_lake import WriteDuckLake
    from beam_joins.pipelines.io.write_parquet import WriteParquet
    from beam_joins.pipelines.io.write_postgres import WritePostgres

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
    "WriteBigQuery",
    "WriteChangelog",
    "WriteDelta",
    "WriteDuckLake",
    "WriteParquet",
    "WritePostgres",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return getattr(import_module(f"beam_joins.pipelines.io.{file}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
