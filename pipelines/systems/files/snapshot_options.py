"""Makes the columns of snapshots from the options of a reader."""

from collections.abc import Sequence
from dataclasses import replace

from beam_joins.pipelines.changelogs.snapshot_times import require_form
from beam_joins.pipelines.formats.changelog_columns import Columns, Snapshots, Unit, flag_of
from beam_joins.pipelines.formats.column_formats import ColumnFormats
from beam_joins.pipelines.systems.files.changelog_options import plain_columns
from beam_joins.transforms.connect import checks


def snapshot_columns(
    *,
    key: Sequence[str],
    timestamp_in_path: str | None = None,
    timestamp_by: str | None = None,
    timestamp_unit: Unit = "us",
    min_share: float = 0.5,
    delimiter: str | None = None,
    encoding: str | None = None,
    column_formats: ColumnFormats | None = None,
    side: str | None = None,
) -> Columns:
    """The columns that options name; raises ``ValueError`` for an option of another form.

    >>> snapshot_columns(key=["id"], timestamp_in_path="%Y-%m-%d").snapshots
    Snapshots(timestamp=None, in_path='%Y-%m-%d', min_share=0.5)
    """
    columns = plain_columns(
        timestamp_by=timestamp_by,
        timestamp_unit=timestamp_unit,
        delimiter=delimiter,
        encoding=encoding,
        column_formats=column_formats,
        side=side,
    )
    in_path, by = flag_of(side, "timestamp_in_path"), flag_of(side, "timestamp_by")
    if timestamp_in_path is not None:
        checks.text("timestamp_in_path", timestamp_in_path, "a form of times")
        try:
            require_form(timestamp_in_path)
        except ValueError as error:
            raise ValueError(f"{in_path}: {error}") from None
    if timestamp_in_path is not None and timestamp_by is not None:
        raise ValueError(f"{in_path} and {by} both say the time of a snapshot: give one of them")
    if timestamp_by in key:
        raise ValueError(f"{by} names {timestamp_by}, a column of the key: name the column with the time of the export")
    if not isinstance(min_share, float | int) or isinstance(min_share, bool) or not 0 <= min_share <= 1:
        raise ValueError(f"{flag_of(side, 'min_share')} {min_share!r}: give a share of rows from 0 to 1")
    snapshots = Snapshots(timestamp_by, timestamp_in_path or "", float(min_share))
    return replace(columns, key=tuple(key), snapshots=snapshots)
