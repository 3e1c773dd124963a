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
    from coders.corrupt import CorruptData
    from transforms.filter_table import FilterTable
    from transforms.foreign_key_join import ForeignKeyJoin
    from transforms.latest_table import LatestTable
    from transforms.map_table import MapTable
    from transforms.table_from_changelog import TableFromChangelog
    from transforms.table_table_join import TableTableJoin
    from transforms.table_to_stream import TableToStream

__version__ = "0.1.0"

__all__ = [
    "Change",
    "CombinedKey",
    "CorruptData",
    "Dropped",
    "FilterTable",
    "ForeignKeyJoin",
    "LatestTable",
    "MapTable",
    "TableFromChangelog",
    "TableTableJoin",
    "TableToStream",
    "Window",
    "Windowed",
    "content",
]

_UPSTAIRS = {
    "CorruptData": "coders.corrupt",
    "FilterTable": "transforms.filter_table",
    "ForeignKeyJoin": "transforms.foreign_key_join",
    "LatestTable": "transforms.latest_table",
    "MapTable": "transforms.map_table",
    "TableFromChangelog": "transforms.table_from_changelog",
    "TableTableJoin": "transforms.table_table_join",
    "TableToStream": "transforms.table_to_stream",
}


def __getattr__(name: str) -> Any:
    if name not in _UPSTAIRS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_UPSTAIRS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
