"""A run: its options and partitions, the state with which it goes on, and calls before and after it."""

from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.kept_signatures import ForEach, KeptSignatures
from beam_joins.transforms.engine.construction.kept_views import KeptViews, keep_views
from beam_joins.transforms.engine.construction.run_hooks import before_run, empty_pipeline
from beam_joins.transforms.engine.construction.runner_abilities import ONE_MACHINE, READ_ONCE
from beam_joins.transforms.engine.resumed.manifest import schema_text, text_schema
from beam_joins.transforms.engine.resumed.state_files import Handed, StateFiles
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.resumed.state_rows import StoredTable
from beam_joins.transforms.engine.stages.partitions import grown_partitions, suggested_partitions
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions, folder_for
from beam_joins.transforms.engine.untaken_drops import drops_in_words, drops_of, step_named, tell_drops, tell_no_drops

__all__ = [
    "ONE_MACHINE",
    "READ_ONCE",
    "ForEach",
    "Handed",
    "KeptSignatures",
    "KeptViews",
    "ReplayOptions",
    "StateFiles",
    "StateFolder",
    "StoredTable",
    "before_run",
    "drops_in_words",
    "drops_of",
    "empty_pipeline",
    "folder_for",
    "grown_partitions",
    "keep_views",
    "label_of",
    "schema_text",
    "step_named",
    "suggested_partitions",
    "tell_drops",
    "tell_no_drops",
    "text_schema",
]
