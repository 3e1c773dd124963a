"""ReadGrowingChangelog: reads the table of a changelog of rows in files that arrive or grow."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from beam_joins.elements.content import Emit
from beam_joins.options.spans import Span
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.changelog_rows import (
    ChangelogRows,
    ReadFollowed,
    checked_schema,
    inferred_types,
    plan_of,
    require_columns,
)
from beam_joins.pipelines.changelogs.event_time import EventTime
from beam_joins.pipelines.changelogs.read_table import ReadTable
from beam_joins.pipelines.formats.changelog_columns import Unit
from beam_joins.pipelines.systems.files.changelog_options import Operations, plain_columns
from beam_joins.pipelines.systems.files.growing_files import FollowedChanges, GrowingFiles, growing_schema, require_growing
from beam_joins.transforms.connect import checks

__all__ = ["ReadGrowingChangelog"]


class ReadGrowingChangelog(ReadTable):
    r"""Reads the table of a changelog of rows in files that match a path or a glob, now and later, without an end.

    Files are read as by :class:`~beam_joins.io.ReadGrowingFiles`, one after the other in the order of their paths: JSON
    lines, Avro, Parquet and Arrow. A record that cannot be read fails the run.

    * ``path``, ``key``, ``timestamp_unit``, ``sequence_by``, ``apply_as_deletes``, ``apply_as_upserts``,
      ``apply_as_truncates``, ``ignored``, ``max_ahead``, ``except_columns``, ``emit``: as of :class:`~beam_joins.io.ReadChangelog`.
    * ``schema``: as of :class:`~beam_joins.io.ReadChangelog`. ``"inferred"`` needs a file when the pipeline is built: a record
      of a later file that does not fit the types fails the run, and a job that is built again may infer others.
    * ``timestamp_by``: the column with the event time, which the watermark follows: a whole number, a timestamp, a date, or
      text in ISO 8601; in UTC without a zone.
    * ``out_of_orderness``: the distance of the watermark behind the largest event time: seconds, a ``timedelta`` or a Beam
      ``Duration``.
    * ``idle_after``: the time without a record after which the watermark follows the clock, ``out_of_orderness`` behind it.
      By default it waits for the next record.

    Of records of one key that neither the sequence nor the event time orders the last one of a file counts, as in
    :class:`~beam_joins.io.ReadChangelog`; the others are dropped, and counted as ``"ambiguous_position"``. Raises
    ``ValueError`` at construction for a wrong option; InputError in the run, naming the file, for a bad record.

    >>> ReadGrowingChangelog("orders/*.csv", key="id", timestamp_by="at")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: path='orders/*.csv': give a path or a glob that ends with one of
        .avro, .jsonl, .json, .ndjson, .parquet, .arrow, .feather
    """

    def __init__(
        self,
        path: str,
        *,
        key: str | Sequence[str],
        timestamp_by: str,
        timestamp_unit: Unit = "us",
        sequence_by: str | Sequence[str] | None = None,
        apply_as_deletes: str | Operations | None = None,
        apply_as_upserts: Operations | None = None,
        apply_as_truncates: Operations | None = None,
        ignored: Operations | None = None,
        max_ahead: Span | None = None,
        except_columns: Sequence[str] = (),
        schema: pa.Schema | Literal["declared", "inferred"] | None = "declared",
        emit: Emit = "updates",
        out_of_orderness: Span = 0,
        idle_after: Span | None = None,
    ) -> None:
        checks.text("timestamp_by", timestamp_by, "the column with the event time")
        columns = plain_columns(
            timestamp_by=timestamp_by,
            timestamp_unit=timestamp_unit,
            sequence_by=sequence_by,
            apply_as_deletes=apply_as_deletes,
            apply_as_upserts=apply_as_upserts,
            apply_as_truncates=apply_as_truncates,
            ignored=ignored,
            max_ahead=max_ahead,
        )
        names, omitted = checks.columns("key", key), checks.columns("except_columns", except_columns, none=True)
        checks.choice("emit", emit, Emit)
        event_time = EventTime.of(out_of_orderness, idle_after)
        checked, is_inferred = checked_schema(schema, inferred=True), schema == "inferred"
        if is_inferred:
            require_growing(path)
            typed = inferred_types(find_changelog("the files", path, columns))
        else:
            typed = growing_schema(path) if isinstance(checked, str) else checked
        if typed is not None:
            require_columns("key", names, typed)
        plan = plan_of(columns, names, typed, omitted, is_inferred=is_inferred)
        changes = GrowingFiles(path, FollowedChanges(plan), pa.RecordBatch, event_time, follow=True)
        rows = ChangelogRows(ReadFollowed(changes, plan), plan, names)
        super().__init__(rows.table(emit=emit, except_columns=omitted).of_run)
