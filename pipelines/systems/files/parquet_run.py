"""Names the run that has written a Parquet file in the file's metadata."""

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from beam_joins.transforms.connect.files import open_file

SUFFIX: Final = ".parquet"
RUN: Final = b"beam_joins.run"
"""Under this key the metadata of a file names the run that has written it."""


def run_of(path: str) -> str | None:
    """The run that has written a file; None if the file does not exist, or is not ours."""
    try:
        with open_file(path) as file:
            metadata = pq.read_metadata(file).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    return metadata[RUN].decode(errors="replace") if RUN in metadata else None


def without_run(table: pa.Table) -> pa.Table:
    """The table without the name of the run: that is the file's, and says nothing of the rows."""
    metadata = table.schema.metadata
    if not metadata or RUN not in metadata:
        return table
    return table.replace_schema_metadata({key: value for key, value in metadata.items() if key != RUN})
