"""The rows of a source as elements: dicts, or Arrow batches of declared columns, with their event times."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from beam_joins.columns.positions import times_of
from beam_joins.errors import InputError
from beam_joins.function_failed import failure
from beam_joins.pipelines.changelogs.followed_changes import Followed, followed
from beam_joins.pipelines.changelogs.source_reads import Place, ReadPiece, Timed
from beam_joins.pipelines.formats.changelog_columns import Columns
from beam_joins.pipelines.formats.file_parts import Block
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.transforms.connect.tables import declared_schema

TimestampBy = str | Callable[[Any], Any]
"""The name of a column, or a function of a row."""


def time_given(label: str, timestamp_by: Callable[..., Any], *record: Any) -> int:
    """Calls a user's function for a time: microseconds since the epoch.

    Raises FunctionFailed if it raises, and ValueError for what is no time.
    """
    try:
        time = timestamp_by(*record)
    except Exception as error:
        raise failure(label, "timestamp_by", error, record) from error
    return _micros(time)


def require_instants(timestamp_by: Any, columns: pa.Schema) -> None:
    """Raises ``ValueError`` for a column of times that are no instants: of a day, or without a zone."""
    kind = columns.field(timestamp_by).type
    if pa.types.is_time(kind):
        raise ValueError(f"timestamp_by={timestamp_by!r}: the column has times of day ({kind}): take one with the date as well")
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise ValueError(f"timestamp_by={timestamp_by!r}: the column has timestamps without a time zone ({kind}): write them with one")


def _micros(time: Any) -> int:
    """The microseconds of a time. Raises ``ValueError`` for a value that is no time, or does not fit in 64 bits."""
    (micros,) = times_of("timestamp_by", [time])
    if not micros.is_valid:
        raise ValueError("timestamp_by gave None: give each row a time")
    return int(micros.as_py())


@dataclass(frozen=True)
class SourceRows:
    """Converts rows to elements: batches with the columns of ``schema``, or dicts without one."""

    timestamp_by: TimestampBy
    schema: pa.Schema | None

    @classmethod
    def of(cls, timestamp_by: TimestampBy, schema: Any) -> "SourceRows":
        """From the options.

        Raises ``ValueError`` for a column that the schema does not have, and for a function of a row of a
        batch.
        """
        columns = None if schema is None else declared_schema(schema)
        if columns is not None and not (isinstance(timestamp_by, str) and timestamp_by in columns.names):
            raise ValueError(f"timestamp_by={timestamp_by!r}: with a schema give one of its columns: {', '.join(columns.names)}")
        if not timestamp_by or not (isinstance(timestamp_by, str) or callable(timestamp_by)):
            raise ValueError(f"timestamp_by={timestamp_by!r}: give the name of a column, or a function of a row")
        if columns is not None:
            require_instants(timestamp_by, columns)
        return cls(timestamp_by, columns)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the schema."""
        return None if self.schema is None else tuple(self.schema.names)

    @property
    def plan(self) -> ReadPlan | None:
        """The plan to read records in the columns of the schema."""
        if self.schema is None or not isinstance(self.timestamp_by, str):
            return None
        return ReadPlan.of_rows(Columns(key=(), timestamp=self.timestamp_by, side=None), self.schema)

    def piece(self, after: Place, block: Block) -> ReadPiece:
        """The elements of some records of a file. Raises InputError for a bad one."""
        plan = self.plan
        if plan is not None:
            made = self.in_columns(after, block(plan), plan)
            if made.fault is not None:
                raise InputError(f"a record cannot be read ({made.fault[1]})")
            return made.piece
        rows = [row for raw in block(None) for row in raw.objects()]
        if bad := [row for row in rows if isinstance(row, str)]:
            raise InputError(f"a record cannot be read ({bad[0]})")
        timed = [Timed(row, self._time(row)) for row in rows if not isinstance(row, str)]
        return ReadPiece(after, timed, max((each.micros for each in timed), default=None), len(timed))

    def in_columns(self, after: Place, raw: Iterable[RawRows], plan: ReadPlan) -> Followed:
        """The elements of records in columns, without those about the change."""
        made, names = followed(plan, after, raw), plan.value.names
        elements = [Timed(each.value.select(names), each.micros) for each in made.piece.elements]
        return made._replace(piece=made.piece._replace(elements=elements))

    def _time(self, row: Mapping[str, Any]) -> int:
        by = self.timestamp_by
        if callable(by):
            return time_given("ReadGrowingFiles", by, row)
        if by not in row:
            raise InputError(f"a row has no column {by!r} (timestamp_by=); it has {', '.join(map(str, row))}")
        return _micros(row[by])
