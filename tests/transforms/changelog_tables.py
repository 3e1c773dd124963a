"""Tables of a pipeline from changelogs in columns, with ``op``, which is ``"d"`` for deletes, and ``position``."""

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from beam_joins import TableFromChangelog


def changelog_table(key: Sequence[str]) -> TableFromChangelog:
    """The transform that makes a table with a key of a changelog."""
    return TableFromChangelog(
        key=list(key) if len(key) > 1 else key[0],
        sequence_by="position",
        timestamp_by="position",
        except_columns=["op", "position"],
        apply_as_deletes={"op": ["d"]},
    )


def changelog_tables(pipeline: beam.Pipeline, logs: Mapping[str, tuple[pa.Table, Sequence[str]]]) -> dict[str, Any]:
    """The tables of changelogs with their keys, by name."""
    return {
        name: pipeline | f"{name} rows" >> beam.Create([log]).with_output_types(pa.Table) | name >> changelog_table(key)
        for name, (log, key) in logs.items()
    }


def changelog(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The changelog of rows with a ``position``; those without an ``op`` are upserts."""
    types = pa.schema([*schema, ("op", pa.string()), ("position", pa.int64())])
    return pa.Table.from_pylist([{"op": "u", **row} for row in rows], types)
