"""Table semantics for Apache Beam: tables from changelogs and their joins.

The names below are the whole public interface. Those that need Beam are loaded on first use (PEP 562), so that what a change and a
join mean can be used, and tested, without Beam.

>>> from beam_joins import Change
>>> Change("k", None, "v", timestamp=0, position=0).new
'v'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from beam_joins.change import Change, Dropped
from beam_joins.combined_key import CombinedKey
from beam_joins.table import content
from beam_joins.windowed import Window, Windowed

if TYPE_CHECKING:
    from coders.change_batch import ChangeBatch
    from coders.corrupt import CorruptData
    from transforms.aggregate_table import AggregateTable, CountTable, ReduceTable
    from transforms.columns.functions import vectorized
    from transforms.filter_table import FilterTable
    from transforms.foreign_key_join import ForeignKeyJoin
    from transforms.latest_table import LatestTable
    from transforms.map_table import MapTable
    from transforms.one_to_many_join import OneToManyJoin
    from transforms.stream_table_join import StreamForeignKeyJoin, StreamTableJoin
    from transforms.table_from_changelog import TableFromChangelog
    from transforms.table_table_join import TableTableJoin
    from transforms.table_to_records import TableToRecords
    from transforms.table_to_stream import TableToStream
    from transforms.windowed_aggregate import WindowedAggregate
    from transforms.windowed_stream_join import WindowedStreamJoin
    from transforms.windowed_table_join import WindowedTableJoin
    from transforms.windowed_table_to_stream import WindowedTableToStream

__version__ = "0.1.0"

__all__ = [
    "AggregateTable",
    "Change",
    "ChangeBatch",
    "CombinedKey",
    "CorruptData",
    "CountTable",
    "Dropped",
    "FilterTable",
    "ForeignKeyJoin",
    "LatestTable",
    "MapTable",
    "OneToManyJoin",
    "ReduceTable",
    "StreamForeignKeyJoin",
    "StreamTableJoin",
    "TableFromChangelog",
    "TableTableJoin",
    "TableToRecords",
    "TableToStream",
    "Window",
    "Windowed",
    "WindowedAggregate",
    "WindowedStreamJoin",
    "WindowedTableJoin",
    "WindowedTableToStream",
    "content",
    "vectorized",
]

_UPSTAIRS = {
    "AggregateTable": "transforms.aggregate_table",
    "ChangeBatch": "coders.change_batch",
    "CorruptData": "coders.corrupt",
    "CountTable": "transforms.aggregate_table",
    "FilterTable": "transforms.filter_table",
    "ForeignKeyJoin": "transforms.foreign_key_join",
    "LatestTable": "transforms.latest_table",
    "MapTable": "transforms.map_table",
    "OneToManyJoin": "transforms.one_to_many_join",
    "ReduceTable": "transforms.aggregate_table",
    "StreamForeignKeyJoin": "transforms.stream_table_join",
    "StreamTableJoin": "transforms.stream_table_join",
    "TableFromChangelog": "transforms.table_from_changelog",
    "TableTableJoin": "transforms.table_table_join",
    "TableToRecords": "transforms.table_to_records",
    "TableToStream": "transforms.table_to_stream",
    "WindowedAggregate": "transforms.windowed_aggregate",
    "WindowedStreamJoin": "transforms.windowed_stream_join",
    "WindowedTableJoin": "transforms.windowed_table_join",
    "WindowedTableToStream": "transforms.windowed_table_to_stream",
    "vectorized": "transforms.columns.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _UPSTAIRS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_UPSTAIRS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
