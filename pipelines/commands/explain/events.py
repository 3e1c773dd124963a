"""The events in two tables and in their join, as the transforms give them on Beam's direct runner."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import Change, CombinedKey, ForeignKeyJoin, TableFromChangelog, TableTableJoin, TableToChanges
from beam_joins.how import How
from beam_joins.operations import DELETES
from beam_joins.pipelines.runners.runner import ENGINE

LEFT, RIGHT, RESULT, DROPPED = "left", "right", "result", "dropped"
NOTHING: Final = "-"


class Event(NamedTuple):
    """A change of a row, in text; or a record that was dropped, with the reason as its key."""

    table: str
    key: str
    old: str | None
    new: str | None
    position: int

    @property
    def change(self) -> str:
        """The change as the documentation writes it.

        >>> Event("left", "k", None, "5, ann", 3).change
        'k: - → 5, ann'
        """
        return f"{self.key}: {NOTHING if self.old is None else self.old} → {NOTHING if self.new is None else self.new}"


class ExplainedSide(NamedTuple):
    """The records of one changelog, and its columns: the key, the position, and the column that says that a record
    deletes its row (``None``: there is none).
    """

    records: Sequence[Mapping[str, Any]]
    key: str
    position: str
    delete: str | None

    def table(self) -> TableFromChangelog:
        """The table of the changelog."""
        left_out = [self.key, self.position, *([] if self.delete is None else [self.delete])]
        return TableFromChangelog(
            key=self.key,
            sequence_by=self.position,
            timestamp_by=self.position,
            apply_as_deletes=None if self.delete is None else {self.delete: sorted(DELETES)},
            except_columns=left_out,
        )


def events_of(left: ExplainedSide, right: ExplainedSide, *, how: How, foreign_key: str | None) -> list[Event]:
    """The events of both tables and of their join, in the order of their positions."""
    with tempfile.TemporaryDirectory(prefix="beam-joins-") as directory:
        path = os.path.join(directory, "events")
        with beam.Pipeline(options=PipelineOptions([], runner=ENGINE)) as pipeline:
            sides = [
                pipeline
                | f"read {name}" >> beam.Create([dict(record) for record in side.records])
                | name >> side.table().with_outputs()
                for name, side in ((LEFT, left), (RIGHT, right))
            ]
            tables = sides[0].table, sides[1].table
            joiner = _left_alone if how in ("semi", "anti") else _both
            dropped = [side.dropped for side in sides]
            if foreign_key is None:
                result = tables | "join" >> TableTableJoin(joiner, how=how)
            else:
                result, lost = tables | "join" >> ForeignKeyJoin(joiner, foreign_key=foreign_key, how=how).with_outputs()
                dropped.append(lost)
            lines = [
                table | f"changes of {name}" >> TableToChanges() | f"lines of {name}" >> beam.Map(_line, name)
                for name, table in ((LEFT, tables[0]), (RIGHT, tables[1]), (RESULT, result))
            ]
            lines += [records | f"dropped {n}" >> beam.Map(_dropped_line) for n, records in enumerate(dropped)]
            _ = lines | beam.Flatten() | beam.io.WriteToText(path, num_shards=1, shard_name_template="")
        with open(path, encoding="utf-8") as file:
            return in_order(Event(*json.loads(line)) for line in file)


def in_order(events: Iterable[Event]) -> list[Event]:
    """By position, left before right before the result."""
    return sorted(events, key=lambda event: (event.position, (LEFT, RIGHT, RESULT, DROPPED).index(event.table), event.key))


def text_of(value: Any) -> str:
    """A key, a row or a result in short.

    >>> text_of({"amount": 5, "customer": None}), text_of(({"a": 1}, None)), text_of(CombinedKey("ann", 1))
    ('5, -', '1 | -', 'ann/1')
    """
    if value is None:
        return NOTHING
    if isinstance(value, CombinedKey):
        return f"{text_of(value.foreign_key)}/{text_of(value.primary_key)}"
    if isinstance(value, tuple):
        return " | ".join(map(text_of, value))
    if isinstance(value, Mapping):
        return ", ".join(map(text_of, value.values()))
    return str(value)


def _both(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def _left_alone(left: Any) -> Any:
    return left


def _line(change: Change[Any, Any], table: str) -> str:
    old, new = (None if value is None else text_of(value) for value in (change.old, change.new))
    return json.dumps(Event(table, text_of(change.key), old, new, change.position))


def _dropped_line(dropped: Any) -> str:
    record = dropped.record
    if isinstance(record, Change):
        return json.dumps(Event(DROPPED, dropped.reason, None, f"{text_of(record.key)}: {text_of(record.new)}", record.position))
    return json.dumps(Event(DROPPED, dropped.reason, None, text_of(record), dropped.timestamp))
