"""The only parts of the engine that readers and writers may use.

A reader gives Arrow batches whose columns, order and size the engine knows (:func:`declared_schema`,
:func:`as_arrow`); a writer takes tables in batches (:func:`in_batches`), asks for their types
(:func:`table_type`), and routes rows by key (:class:`Route`). Both lock, write and rename files as the engine
does (:class:`FileLock`, :func:`write_whole`, :func:`rename`).
"""

from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter
from beam_joins.transforms.engine.blocks.log_spans import IN_TIME
from beam_joins.transforms.engine.blocks.metrics import (
    ABSENT_DELETES,
    BLOCK_BYTES,
    BLOCK_ROWS,
    NAMESPACE,
    ROWS_IN,
    ROWS_OUT,
    STATE_BYTES,
    STATE_ROWS,
    SUPERSEDED_ROWS,
    TURN_MICROS,
    UNMATCHED,
)
from beam_joins.transforms.engine.construction.arrow_input import arrow_schema, as_arrow, declared_schema, plain_schema, struct_of
from beam_joins.transforms.engine.construction.beam_schemas import batches_of_rows, row_type, rows_of
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.input_checks import require_bounded, require_global, require_tables
from beam_joins.transforms.engine.construction.option_checks import choice, columns, flag, text
from beam_joins.transforms.engine.construction.output_types import TableOutputs
from beam_joins.transforms.engine.construction.plain_rows import PlainRows
from beam_joins.transforms.engine.construction.run_hooks import before_run
from beam_joins.transforms.engine.construction.runner_abilities import ONE_MACHINE, READ_ONCE
from beam_joins.transforms.engine.construction.table_type import (
    TableType,
    at_first_position,
    begins_anew,
    compared_as,
    is_batches,
    table_type,
)
from beam_joins.transforms.engine.files.claim import (
    Claim,
    ClaimInStore,
    claim_at,
    claim_of,
    end_lease,
    new_claim,
    share_lease,
    take_lease,
)
from beam_joins.transforms.engine.files.file_lock import FileLock
from beam_joins.transforms.engine.files.objects import ListedFile, bucket_and_key
from beam_joins.transforms.engine.files.reachability import unreachable
from beam_joins.transforms.engine.files.stored_files import (
    calling,
    cause,
    create_file,
    exists,
    files_below,
    folders_in,
    is_remote,
    matching_files,
    open_file,
    read_whole,
    remove_files,
    remove_folder,
    rename,
    write_whole,
)
from beam_joins.transforms.engine.resumed.manifest import schema_text, text_schema
from beam_joins.transforms.engine.resumed.state_files import StateFiles
from beam_joins.transforms.engine.resumed.state_folder import StateFolder
from beam_joins.transforms.engine.resumed.state_rows import StoredTable
from beam_joins.transforms.engine.stages.incoming_tables import in_batches
from beam_joins.transforms.engine.stages.partitions import growing_partitions, suggested_partitions
from beam_joins.transforms.engine.stages.replay import InlineRoute as Route
from beam_joins.transforms.engine.stages.replay_options import ReplayOptions, folder_for
from beam_joins.transforms.engine.stages.table_forms import prepared
from beam_joins.transforms.engine.stages.table_rows import last_of_each, newest
from beam_joins.transforms.engine.untaken_drops import step_named, tell_no_drops

__all__ = [
    "ABSENT_DELETES",
    "BLOCK_BYTES",
    "BLOCK_ROWS",
    "IN_TIME",
    "NAMESPACE",
    "ONE_MACHINE",
    "READ_ONCE",
    "ROWS_IN",
    "ROWS_OUT",
    "STATE_BYTES",
    "STATE_ROWS",
    "SUPERSEDED_ROWS",
    "TURN_MICROS",
    "UNMATCHED",
    "BlockWriter",
    "Claim",
    "ClaimInStore",
    "FileLock",
    "ListedFile",
    "PlainRows",
    "ReplayOptions",
    "Route",
    "StateFiles",
    "StateFolder",
    "StateRefused",
    "StoredTable",
    "TableOutputs",
    "TableType",
    "arrow_schema",
    "as_arrow",
    "at_first_position",
    "batches_of_rows",
    "before_run",
    "begins_anew",
    "bucket_and_key",
    "calling",
    "cause",
    "choice",
    "claim_at",
    "claim_of",
    "columns",
    "compared_as",
    "create_file",
    "declared_schema",
    "end_lease",
    "exists",
    "files_below",
    "flag",
    "folder_for",
    "folders_in",
    "growing_partitions",
    "in_batches",
    "is_batches",
    "is_remote",
    "label_of",
    "last_of_each",
    "matching_files",
    "new_claim",
    "newest",
    "open_file",
    "plain_schema",
    "prepared",
    "read_whole",
    "remove_files",
    "remove_folder",
    "rename",
    "require_bounded",
    "require_global",
    "require_tables",
    "row_type",
    "rows_of",
    "schema_text",
    "share_lease",
    "step_named",
    "struct_of",
    "suggested_partitions",
    "table_type",
    "take_lease",
    "tell_no_drops",
    "text",
    "text_schema",
    "unreachable",
    "write_whole",
]
