"""The events in two tables and in their join, as the transforms give them on the local runner."""

import datetime as dt
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import Change, CombinedKey, ForeignKeyJoin, TableFromChangelog, TableTableJoin, TableToChanges
from beam_joins.elements.iso_times import EPOCH, NO_TIME
from beam_joins.options.join_types import How
from beam_joins.pipelines.commands.select import Share
from beam_joins.pipelines.formats.changelog_columns import Columns, plain_key, reference_at
from beam_joins.pipelines.formats.read_plan import BEHIND_DELETES
from beam_joins.pipelines.runners.runner import LOCAL
from beam_joins.transforms.connect.runs import tell_no_drops

LEFT, RIGHT, RESULT, DROPPED = "left", "right", "result", "dropped"
NOTHING: Final = "-"
_ABOUT: Final = ["(key)", "(time)", "(sequence)", "(tie)", "(operation)", "(record)"]
_KEY, _TIME, _SEQUENCE, _TIE, _OPERATION, _RECORD = _ABOUT


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
    """The records of one changelog, and what their columns are; ``keeps_all``: rows have the key and the time, too."""

    records: Sequence[Mapping[str, Any]]
    columns: Columns
    keeps_all: bool = False

    @property
    def beside(self) -> frozenset[str | None]:
        """The columns that the text of a row does not have, as they stand beside it."""
        return frozenset({*self.columns.key, self.columns.timestamp})

    def elements(self, foreign_key: Sequence[str]) -> list[dict[str, Any]]:
        """The records that are changes: their rows, without columns about the change and the key, and in columns of other names what
        orders them.
        """
        columns, made = self.columns, []
        left_out = {*columns.about_the_change(), *self.beside} - {*foreign_key}
        if self.keeps_all:
            left_out = {*columns.about_the_change()}
        for place, record in enumerate(self.records):
            if columns.is_ignored(record):
                continue
            row = {name: value for name, value in record.items() if name not in left_out}
            row |= {name: plain_key(reference_at(record, name)) for name in foreign_key}
            key = tuple(plain_key(reference_at(record, name)) for name in columns.key)
            position, *within = columns.sequence_of(record)
            deleted = columns.is_delete(record)
            about = {
                _KEY: None if None in key else key if len(key) > 1 else key[0],
                _TIME: NO_TIME if position is None else position,
                _SEQUENCE: None if position is None else (position, *(each or 0 for each in within)),
                _TIE: (columns.time_of(record), place + BEHIND_DELETES if columns.is_feed and not deleted else place),
                _OPERATION: "t" if columns.is_truncate(record) else "d" if deleted else "u",
                _RECORD: dict(record),
            }
            made.append(about | row)
        return made

    def table(self) -> TableFromChangelog:
        """The table of the changelog."""
        return TableFromChangelog(
            key=_KEY,
            sequence_by=lambda record: record[_SEQUENCE],
            timestamp_by=_TIME,
            tie_break_by=lambda record: record[_TIE],
            apply_as_deletes={_OPERATION: ["d"]},
            apply_as_truncates={_OPERATION: ["t"]} if self.columns.truncates else None,
            except_columns=_ABOUT,
        )


def events_of(
    left: ExplainedSide,
    right: ExplainedSide,
    *,
    how: How,
    foreign_key: Sequence[str] = (),
    shares: Mapping[int, Share] | None = None,
) -> list[Event]:
    """The events of both tables and of their join, in the order of their positions. Rows of the result have the ``shares`` of both
    sides, by default all columns but those beside the rows.
    """
    with tempfile.TemporaryDirectory(prefix="beam-joins-") as directory:
        path = os.path.join(directory, "events")
        with beam.Pipeline(options=PipelineOptions(["--python_workers=1"], runner=LOCAL)) as pipeline:
            tell_no_drops(pipeline)
            sides = [
                pipeline
                | f"read {name}" >> beam.Create(side.elements(foreign_key if name == LEFT else ()))
                | name >> side.table().with_outputs()
                for name, side in ((LEFT, left), (RIGHT, right))
            ]
            tables = sides[0].table, sides[1].table
            joiner: Any = _left_alone if how in ("semi", "anti") else _both
            if shares is not None:
                joiner = partial(_selected_of_left if how in ("semi", "anti") else _selected, shares)
            dropped = [side.dropped for side in sides]
            refers = foreign_key[0] if len(foreign_key) == 1 else [*foreign_key]
            if not foreign_key:
                result = tables | "join" >> TableTableJoin(joiner, how=how)
            else:
                result, lost = tables | "join" >> ForeignKeyJoin(joiner, foreign_key=refers, how=how).with_outputs()
                dropped.append(lost)
            lines = [
                table | f"changes of {name}" >> TableToChanges() | f"lines of {name}" >> beam.Map(_line, name, hidden)
                for name, table, hidden in (
                    (LEFT, tables[0], left.beside - {*foreign_key}),
                    (RIGHT, tables[1], right.beside),
                    (RESULT, result, frozenset()),
                )
            ]
            lines += [records | f"dropped {n}" >> beam.Map(_dropped_line) for n, records in enumerate(dropped)]
            _ = lines | beam.Flatten() | beam.io.WriteToText(path, num_shards=1, shard_name_template="")
        with open(path, encoding="utf-8") as file:
            return in_order(Event(*json.loads(line)) for line in file)


def position_texts(events: Iterable[Event], *, are_times: bool) -> dict[int, str]:
    """The positions as they are shown: numbers, or times in UTC; rows without either are there at the start.

    >>> position_texts([Event("left", "k", None, "a", position) for position in (NO_TIME, 7)], are_times=False)
    {-9223372036854775000: 'start', 7: '7'}
    >>> position_texts([Event("left", "k", None, "a", 86_400_000_000)], are_times=True)
    {86400000000: '1970-01-02 00:00:00'}
    """
    positions = sorted({event.position for event in events})
    return {each: "start" if each == NO_TIME else _time(each) if are_times else str(each) for each in positions}


def _time(micros: int) -> str:
    try:
        return (EPOCH + dt.timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(" ")
    except OverflowError:
        return str(micros)


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
        return f"{_key_text(value.foreign_key)}/{_key_text(value.primary_key)}"
    if isinstance(value, tuple):
        return " | ".join(map(text_of, value))
    if isinstance(value, Mapping):
        return ", ".join(map(text_of, value.values()))
    return str(value)


def _key_text(key: Any) -> str:
    return ", ".join(map(text_of, key)) if type(key) is tuple else text_of(key)


def _both(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def _left_alone(left: Any) -> Any:
    return left


def _selected(shares: Mapping[int, Share], left: Any, right: Any) -> dict[str, Any]:
    """The columns of a row of the result that the shares of both sides name."""
    row: dict[str, Any] = {}
    for side, share in shares.items():
        of_side = left if side == 0 else right
        if share.nested:
            row[share.nested] = of_side
        elif share.columns is None:
            row |= of_side or {}
        else:
            row |= {name: None if of_side is None else of_side.get(column) for column, name in share.columns}
    return row


def _selected_of_left(shares: Mapping[int, Share], left: Any) -> dict[str, Any]:
    return _selected(shares, left, None)


def _line(change: Change[Any, Any], table: str, hidden: frozenset[str | None]) -> str:
    old, new = (None if value is None else text_of(_without(value, hidden)) for value in (change.old, change.new))
    return json.dumps(Event(table, _key_text(change.key), old, new, change.position))


def _without(value: Any, hidden: frozenset[str | None]) -> Any:
    return {name: each for name, each in value.items() if name not in hidden} if isinstance(value, Mapping) else value


def _dropped_line(dropped: Any) -> str:
    record = dropped.record
    if isinstance(record, Change):
        return json.dumps(Event(DROPPED, dropped.reason, None, f"{_key_text(record.key)}: {text_of(record.new)}", record.position))
    row = record[_RECORD] if isinstance(record, Mapping) else record
    return json.dumps(Event(DROPPED, dropped.reason, None, text_of(row), dropped.timestamp))
