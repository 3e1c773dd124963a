"""The end-of-run summary: what came in, what came out, what was dropped and why, how long it took, where it
lies.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from beam_joins.pipelines.base.paths import matching
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.read_records import AHEAD, READ, SKIPPED
from beam_joins.pipelines.changelogs.tombstones_in_files import UNPAIRED
from beam_joins.pipelines.commands.command_spec import LATEST, TO, CommandSpec
from beam_joins.pipelines.commands.run_progress import Step, watched_of
from beam_joins.pipelines.commands.standard_streams import STANDARD
from beam_joins.pipelines.results.counts import NULL_FOREIGN_KEY, NULL_GROUP, Tally, add_up
from beam_joins.pipelines.results.write_parts import Report
from beam_joins.transforms.connect.metrics import ABSENT_DELETES, SUPERSEDED_ROWS

REASONS: Final = {
    "bad_record": "not usable as a record",
    "null_key": "without a key",
    "null_sequence": "without a sequence",
    "null_timestamp": "without a time",
    "duplicate_position": "repeated: the same record again",
    "ambiguous_position": "other records of one key and position: the last in time counts, then the last in the files (in a "
    "change feed an upsert); give a finer order: {flag} commit_lsn,lsn",
    "null_foreign_key": "{unreferring}",
    "null_group": "with a null in a column of the group: --null-groups=keep makes groups of them",
    "no_earlier_row": "left large values out that did not change, and no earlier row has them",
}
PASSED_OVER: Final = {
    "skipped_ignored_operation": "records whose operation is no change, as the options say",
    "absent_deletes": "deletes that change nothing, as there is no such row before them",
    "superseded_rows": "changes of rows that change again in the same transaction: the last one counts",
    "skipped_empty_transaction": "transactions without a change: of other tables, or a TRUNCATE, which format 1 of "
    "wal2json does not show, and format 2 does",
}
STALE: Final = "late_stale"
LATE: Final = {
    "late_applied": "at or before the end of the last run: applied behind it",
    STALE: "older than the row's last change or a truncate, or of an absent row and older than a "
    "delete that --beam_joins_remember_deletes keeps no longer: not applied",
}
ROWS: Final = "rows"
"""Rows of the first input in the end; of these:"""
MATCHED: Final = "matched"
UNREFERRING: Final = "unreferring"
_NOT_DROPPED: Final = frozenset({READ, ROWS, MATCHED, UNREFERRING, AHEAD, *LATE, *UNPAIRED})
JOIN: Final = "join"
GROUPS: Final = "groups"
OF_RESULT: Final = {NULL_FOREIGN_KEY: JOIN, NULL_GROUP: GROUPS}
"""The reasons for which the steps behind the tables leave rows out, and these steps."""


class StageFigures(NamedTuple):
    """A stage of a run: its name in words, the step of the pipeline, rows in and out, and the seconds that all
    workers together spent in it. ``bytes_in``: of the files that hold the rows, where that is counted.
    """

    name: str
    step: str
    rows_in: int
    rows_out: int
    seconds: float
    bytes_in: float = 0.0


class Summary:
    """The figures of a run that has ended: rows read, dropped and written, files, seconds; as text, and as data
    for programs.

    ``matches``: rows of the first input are counted with and without a row of the second one. ``remarks`` are
    sentences, ``title`` says what the run has made.
    """

    def __init__(
        self,
        spec: CommandSpec,
        report: Report,
        files: Mapping[str, Sequence[str]],
        seconds: Mapping[str, float],
        remarks: Sequence[str] = (),
        *,
        matches: bool,
        title: str = "",
    ) -> None:
        self.spec, self.seconds, self.matches, self.title = spec, seconds, matches, title
        self.sides = [side.name for side in spec.sides]
        self.figures, self.watched = report.figures, watched_of(report)
        self.files, self._remarks, self._parts, self._tallies = files, remarks, report.parts, add_up(report.tallies)

    def text(self) -> str:
        """The summary for people.

        >>> from beam_joins.pipelines.results.write_parts import WrittenPart
        >>> from beam_joins.pipelines.orders import ORDERS
        >>> report = Report([Tally("orders", "read", 1200), Tally("orders", "null_key", 2)], [WrittenPart("latest", "p", 7)])
        >>> print(Summary(ORDERS, report, {}, {"run": 1.25}, matches=True).text())
        records in
          orders                   1,200
          customers                    0
        dropped
          orders                       2  without a key (null_key)
        without a customer
          orders                       0  of 0 final rows (0 with a null foreign key)
        seconds
          run                        1.2
          all                        1.2
        """
        spec, first = self.spec, self.sides[0]
        lines = ["records in", *(_line(side, self.read(side)) for side in self.sides), "dropped"]
        dropped = self.dropped()
        for tally in dropped:
            lines += [f"{_line(tally.place, tally.records)}  {self.reason(tally)}", *(f"    {each}" for each in tally.examples)]
        if not dropped:
            lines.append("  nothing")
        if passed := self.passed_over():
            lines += ["passed over", *(f"{_line(tally.place, tally.records)}  {self.reason(tally)}" for tally in passed)]
        if late := self.late():
            lines += ["late", *(f"{_line(tally.place, tally.records)}  {self.reason(tally)}" for tally in late)]
        if self.matches:
            refers = (first, UNREFERRING) in self._tallies or not self.rows()
            of_them = f" ({self.unreferring():,} with a null foreign key)" if refers else ""
            lines += [f"without {spec.match}", f"{_line(first, self.unmatched())}  of {self.rows():,} final rows{of_them}"]
        if self.files:
            lines.append("out")
        for output, paths in self.files.items():
            lines.append(f"{_line(output, self.written(output))}  {self.what(output)}{_place(output, paths)}")
        if self.watched is not None and self.watched.engine is not None:
            lines += ["engine", *self.watched.engine.lines()]
        lines.append("seconds")
        lines += [f"  {phase:<19} {taken:>10,.1f}" for phase, taken in (*self.seconds.items(), ("all", sum(self.seconds.values())))]
        if remarks := self.remarks():
            lines += ["remarks", *(f"  {remark}" for remark in remarks)]
        return "\n".join([*lines, *self._first_rows()])

    def data(self) -> dict[str, Any]:
        """The summary for programs, as ``docs/command_line.md`` describes it."""
        dropped, late = self.dropped(), self.late()
        inputs: dict[str, dict[str, Any]] = {
            side.path_option: {
                "read_records": self.read(side.name),
                "dropped_records": {tally.what: tally.records for tally in dropped if tally.place == side.name},
                "passed_over_records": {tally.what: tally.records for tally in self.passed_over() if tally.place == side.name},
                "late_records": {tally.what: tally.records for tally in late if tally.place == side.name},
            }
            for side in self.spec.sides
        }
        rows = inputs[self.spec.sides[0].path_option]
        rows["rows"] = self.rows()
        if self.matches:
            rows |= {"unmatched_rows": self.unmatched(), "unreferring_rows": self.unreferring()}
        return {
            "command": self.spec.command,
            "inputs": inputs,
            **{
                f"dropped_by_{place}_records": {tally.what: tally.records for tally in dropped if tally.place == place}
                for place in OF_RESULT.values()
            },
            "outputs": {
                output: {"written_records": self.written(output), "paths": list(paths)}
                | ({} if output == TO or STANDARD in paths else {"size_bytes": _bytes(paths)})
                for output, paths in self.files.items()
            },
            "phase_seconds": {phase: round(taken, 3) for phase, taken in self.seconds.items()},
            "total_seconds": round(sum(self.seconds.values()), 3),
            "remarks": self.remarks(),
        }

    def remarks(self) -> list[str]:
        """The sentences at the end."""
        ahead = []
        for side in self.spec.sides:
            if (tally := self._tallies.get((side.name, AHEAD))) is not None:
                many = f"{counted(tally.records, 'record')} of the {side.name} {'is' if tally.records == 1 else 'are'}"
                ahead.append(
                    f"{many} a day or more ahead of the clock ({tally.examples[0]}): in incremental runs those before are late; "
                    f"{side.flag('max_ahead')} refuses such records"
                )
        return [*self._remarks, *ahead]

    def read(self, side: str) -> int:
        """The number of records of an input that were read."""
        return self._count(side, READ)

    def rows(self) -> int:
        """The number of rows of the first input in the end."""
        return self._count(self.sides[0], ROWS)

    def unmatched(self) -> int:
        """The number of these rows without a row of the second input."""
        return self.rows() - self._count(self.sides[0], MATCHED)

    def unreferring(self) -> int:
        """The number of these rows that refer to none."""
        return self._count(self.sides[0], UNREFERRING)

    def written(self, output: str) -> int:
        """The number of records in the parts of an output."""
        return sum(part.records for part in self._parts if part.output == output)

    def what(self, output: str) -> str:
        """The content of an output, in words."""
        return "changes merged" if output == TO else self.spec.results[output == LATEST]

    def dropped(self) -> list[Tally]:
        """The records that were not applied, by input and reason."""
        dropped = [tally for (place, what), tally in self._tallies.items() if place and what not in _NOT_DROPPED]
        return self._sorted(tally for tally in dropped if not tally.what.startswith(SKIPPED))

    def lost(self) -> list[Tally]:
        """The dropped records but for those without a foreign key, which an inner join leaves out."""
        return [tally for tally in self.dropped() if tally.what != NULL_FOREIGN_KEY]

    def late(self) -> list[Tally]:
        """The records at or before the end of the run before, by input and by what became of them."""
        return [self._tallies[side, what] for side in self.sides for what in LATE if (side, what) in self._tallies]

    def reason(self, tally: Tally) -> str:
        """Why records were dropped, passed over or late, in words."""
        flag = next((side.flag("sequence_by") for side in self.spec.sides if side.name == tally.place), "")
        reason = {**REASONS, **PASSED_OVER, **LATE}.get(tally.what, tally.what.removeprefix(SKIPPED).replace("_", " "))
        return f"{reason.format(flag=flag, unreferring=self.spec.unreferring)} ({tally.what})"

    def stages(self) -> list[StageFigures]:
        """The stages that workers were timed in, in the order of the data."""
        if self.watched is None:
            return []
        read = [
            StageFigures(f"read {side}", f"Read {side}", each.rows, each.rows, each.seconds, each.rows / each.whole_rows * each.bytes)
            for side, each in zip(self.sides, self.watched.read, strict=True)
            if each.whole_rows
        ]
        steps = {} if self.watched.engine is None else self.watched.engine.steps
        labels = {
            **{side.capitalize(): f"table of {side}" for side in self.sides},
            "Join": "join",
            "Groups": "groups",
            "Latest": "final table",
        }
        timed = [(label, step, steps[step]) for step, label in labels.items() if step in steps]
        written = {output: sum(part.seconds for part in self._parts if part.output == output) for output in self.files}
        return [
            *read,
            *(StageFigures(label, step, each.rows_in, each.rows_out, each.seconds) for label, step, each in timed),
            *(
                StageFigures(f"write {output}", f"Write {output}", self.written(output), self.written(output), seconds)
                for output, seconds in written.items()
            ),
        ]

    def steps(self) -> list[Step]:
        """The steps of the pipeline; reading, which was timed by itself, is a step before the one that makes the table."""
        timed = {stage.step for stage in self.stages()}
        reads = {side.capitalize(): f"Read {side}" for side in self.sides if f"Read {side}" in timed}
        steps = () if self.watched is None else self.watched.steps
        with_reads = [Step(step.name, (reads[step.name], *step.takes)) if step.name in reads else step for step in steps]
        return [*(Step(read, ()) for read in reads.values()), *with_reads]

    def _count(self, place: str, what: str) -> int:
        tally = self._tallies.get((place, what))
        return tally.records if tally else 0

    def _first_rows(self) -> list[str]:
        """The first rows of the final table as lines, for commands that show them of JSON lines on this machine."""
        path = next(iter(self.files.get(LATEST, ())), "")
        if not self.spec.shown_rows or not path.endswith(".jsonl") or not os.path.isfile(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [f"first rows in {path}", *(f"  {line.rstrip()}" for line in islice(file, self.spec.shown_rows))]

    def passed_over(self) -> list[Tally]:
        """The records that describe no change, and those whose change changes nothing, by input and reason."""
        steps = {} if self.watched is None or self.watched.engine is None else self.watched.engine.steps
        of_tables = [(side, steps[side.capitalize()]) for side in self.sides if side.capitalize() in steps]
        counted = [Tally(side, ABSENT_DELETES.name, step.absent_deletes) for side, step in of_tables]
        counted += [Tally(side, SUPERSEDED_ROWS.name, step.superseded_rows) for side, step in of_tables]
        skipped = [tally for tally in self._tallies.values() if tally.what.startswith(SKIPPED)]
        return self._sorted([*skipped, *(tally for tally in counted if tally.records)])

    def _sorted(self, tallies: Iterable[Tally]) -> list[Tally]:
        return sorted(tallies, key=lambda tally: ([*self.sides, *OF_RESULT.values()].index(tally.place), tally.what))


def _line(what: str, count: int) -> str:
    return f"  {what:<19} {count:>10,}"


def _place(output: str, paths: Sequence[str]) -> str:
    """Where an output is, in words."""
    if STANDARD in paths:
        return " on standard output"
    place = paths[0] if len(paths) == 1 else f"{len(paths)} files {paths[0]} ..."
    return f" into {place}" if output == TO else f", {_bytes(paths):,} bytes in {place}"


def _bytes(paths: Sequence[str]) -> int:
    return sum(file.bytes for path in paths for file in matching(path))
