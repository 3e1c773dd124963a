"""Checks of options and inputs while a pipeline is built."""

from beam_joins.transforms.engine.construction.input_checks import require_bounded, require_global, require_tables
from beam_joins.transforms.engine.construction.option_checks import choice, columns, flag, text

__all__ = [
    "choice",
    "columns",
    "flag",
    "require_bounded",
    "require_global",
    "require_tables",
    "text",
]
