"""Table semantics for Apache Beam: tables from changelogs and their joins.

The names below are the public interface, with the readers and writers in :mod:`beam_joins.io` and the types of named
outputs in :mod:`beam_joins.outputs`. Those that need Beam are loaded on first use (PEP 562), so that what a change and
a join mean can be used, and tested, without Beam.

>>> from beam_joins import Change
>>> Change("k", None, "v", timestamp=0, position=0).new
'v'
"""

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from beam_joins.elements.change import Change, Dropped
from beam_joins.elements.combined_key import CombinedKey
from beam_joins.elements.content import content
from beam_joins.elements.windowed import Window, Windowed
from beam_joins.function_failed import FunctionFailed

if TYPE_CHECKING:
    from beam_joins.errors import CorruptData, InputError, OutputError, StateRefused, Unavailable
    from beam_joins.functions.function_versions import versioned
    from beam_joins.functions.marked_functions import vectorized, with_key
    from beam_joins.pipelines.runners.local.local_runner import LocalRunner
    from beam_joins.pipelines.runners.runner_setup import runner
    from beam_joins.tables.batch import ChangeBatch
    from beam_joins.transforms.aggregate_table import AggregateTable
    from beam_joins.transforms.count_table import CountTable
    from beam_joins.transforms.distinct_table import DistinctTable
    from beam_joins.transforms.engine.construction.table_type import as_windowed_table, begins_anew
    from beam_joins.transforms.engine.resumed.state_folder import StateFolder
    from beam_joins.transforms.filter_table import FilterTable
    from beam_joins.transforms.foreign_key_join import ForeignKeyJoin
    from beam_joins.transforms.latest_table import LatestTable
    from beam_joins.transforms.many_to_many_join import ManyToManyJoin
    from beam_joins.transforms.map_table import MapTable
    from beam_joins.transforms.one_to_many_join import OneToManyJoin
    from beam_joins.transforms.reduce_table import ReduceTable
    from beam_joins.transforms.steps import Steps
    from beam_joins.transforms.stream_foreign_key_join import StreamForeignKeyJoin
    from beam_joins.transforms.stream_table_join import StreamTableJoin
    from beam_joins.transforms.sum_table import SumTable
    from beam_joins.transforms.table_from_changelog import TableFromChangelog
    from beam_joins.transforms.table_table_join import TableTableJoin
    from beam_joins.transforms.table_to_changes import TableToChanges
    from beam_joins.transforms.table_to_rows import TableToRows
    from beam_joins.transforms.table_to_stream import TableToStream
    from beam_joins.transforms.union_tables import UnionTables
    from beam_joins.transforms.view import View
    from beam_joins.transforms.windowed_aggregate import WindowedAggregate
    from beam_joins.transforms.windowed_stream_join import WindowedStreamJoin
    from beam_joins.transforms.windowed_table_join import WindowedTableJoin
    from beam_joins.transforms.windowed_table_to_stream import WindowedTableToStream

__version__ = "0.1.0"

__all__ = [
    "AggregateTable",
    "Change",
    "ChangeBatch",
    "CombinedKey",
    "CorruptData",
    "CountTable",
    "DistinctTable",
    "Dropped",
    "FilterTable",
    "ForeignKeyJoin",
    "FunctionFailed",
    "InputError",
    "LatestTable",
    "LocalRunner",
    "ManyToManyJoin",
    "MapTable",
    "OneToManyJoin",
    "OutputError",
    "ReduceTable",
    "StateFolder",
    "StateRefused",
    "Steps",
    "StreamForeignKeyJoin",
    "StreamTableJoin",
    "SumTable",
    "TableFromChangelog",
    "TableTableJoin",
    "TableToChanges",
    "TableToRows",
    "TableToStream",
    "Unavailable",
    "UnionTables",
    "View",
    "Window",
    "Windowed",
    "WindowedAggregate",
    "WindowedStreamJoin",
    "WindowedTableJoin",
    "WindowedTableToStream",
    "as_windowed_table",
    "begins_anew",
    "content",
    "runner",
    "vectorized",
    "versioned",
    "with_key",
]

_ELSEWHERE = {
    "ChangeBatch": "beam_joins.tables.batch",
    **dict.fromkeys(["CorruptData", "InputError", "OutputError", "StateRefused", "Unavailable"], "beam_joins.errors"),
    "LocalRunner": "beam_joins.pipelines.runners.local.local_runner",
    "runner": "beam_joins.pipelines.runners.runner_setup",
    "StateFolder": "beam_joins.transforms.engine.resumed.state_folder",
    **dict.fromkeys(["as_windowed_table", "begins_anew"], "beam_joins.transforms.engine.construction.table_type"),
    "vectorized": "beam_joins.functions.marked_functions",
    "versioned": "beam_joins.functions.function_versions",
    "with_key": "beam_joins.functions.marked_functions",
}
"""Where the names lie that are loaded on first use, beside the transforms: each of those lies in the file of
its name.
"""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return getattr(import_module(_ELSEWHERE.get(name, f"beam_joins.transforms.{file}")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
