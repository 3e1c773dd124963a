"""The end-of-run summary: what came in, what came out, what was dropped and why, how long it took, where it lies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from beam_joins.pipelines.changelog_files.paths import matching
from beam_joins.pipelines.changelog_files.read_changelog import READ
from beam_joins.pipelines.changelog_files.tally import Tally, add_up
from beam_joins.pipelines.changelog_files.write_parts import Report
from beam_joins.pipelines.jobs.names import Names

REASONS: Final = {
    "bad_record": "not usable as a record",
    "null_key": "without a key",
    "null_sequence": "without a sequence",
    "null_timestamp": "without a time",
    "duplicate_position": "repeated: the same record again",
    "ambiguous_position": "other records of one key and position: the last in time counts, then in the files; give a finer order: "
    "{flag} commit_lsn,lsn",
    "null_foreign_key": "{unreferring}",
}
LATE: Final = {
    "late_applied": "at or before the end of the last run: applied behind it",
    "late_stale": "at or before the end of the last run, and nothing new: not applied",
}
ROWS: Final = "rows"
"""Rows of the first input in the end; of these:"""
MATCHED: Final = "matched"
UNREFERRING: Final = "unreferring"
_NOT_DROPPED: Final = frozenset({READ, ROWS, MATCHED, UNREFERRING, *LATE})
JOIN: Final = "join"


class Summary:
    """What a run has counted, where its results lie, and how long it took.

    ``matches``: rows of the first input are told to have or not to have a row of the second one. ``remarks`` are sentences.
    """

    def __init__(
        self,
        names: Names,
        report: Report,
        files: Mapping[str, Sequence[str]],
        seconds: Mapping[str, float],
        remarks: Sequence[str] = (),
        *,
        matches: bool,
    ) -> None:
        self._names, self._files, self._seconds, self._remarks, self._matches = names, files, seconds, remarks, matches
        self._parts, self._tallies, self._watched = report.parts, add_up(report.tallies), report.watched
        self._sides = [side.name for side in names.sides]

    def text(self) -> str:
        """The summary for people.

        >>> from beam_joins.pipelines.changelog_files.write_parts import WrittenPart
        >>> from beam_joins.pipelines.orders import ORDERS
        >>> report = Report([Tally("orders", "read", 1200), Tally("orders", "null_key", 2)], [WrittenPart("latest", "p", 7)])
        >>> print(Summary(ORDERS, report, {}, {"run": 1.25}, matches=True).text())
        records in
          orders                   1,200
          customers                    0
        dropped
          orders                       2  without a key (null_key)
        without a customer
          orders                       0  of 0 in the end; 0 of them refer to none
        seconds
          run                        1.2
          all                        1.2
        """
        names, first = self._names, self._sides[0]
        lines = ["records in", *(_line(side, self._count(side, READ)) for side in self._sides), "dropped"]
        dropped = self._dropped()
        for tally in dropped:
            flag = next((side.flag("sequence") for side in names.sides if side.name == tally.place), "")
            reason = REASONS.get(tally.what, tally.what).format(flag=flag, unreferring=names.unreferring)
            lines += [f"{_line(tally.place, tally.records)}  {reason} ({tally.what})", *(f"    {each}" for each in tally.examples)]
        if not dropped:
            lines.append("  nothing")
        if late := [(side, what, self._count(side, what)) for side in self._sides for what in LATE if (side, what) in self._tallies]:
            lines += ["late", *(f"{_line(side, count)}  {LATE[what]} ({what})" for side, what, count in late)]
        if self._matches:
            rows, matched, unreferring = (self._count(first, what) for what in (ROWS, MATCHED, UNREFERRING))
            of_them = f"; {unreferring:,} of them refer to none" if (first, UNREFERRING) in self._tallies or not rows else ""
            lines += [f"without {names.match}", f"{_line(first, rows - matched)}  of {rows:,} in the end{of_them}"]
        if self._files:
            lines.append("out")
        for output, paths in self._files.items():
            said = names.results[output == "latest"]
            place = paths[0] if len(paths) == 1 else f"{len(paths)} files {paths[0]} ..."
            lines.append(f"{_line(output, self._written(output))}  {said}, {_bytes(paths):,} bytes in {place}")
        if self._watched is not None and self._watched.engine is not None:
            lines += ["engine", *self._watched.engine.lines()]
        lines.append("seconds")
        lines += [f"  {phase:<19} {taken:>10,.1f}" for phase, taken in (*self._seconds.items(), ("all", sum(self._seconds.values())))]
        if self._remarks:
            lines += ["remarks", *(f"  {remark}" for remark in self._remarks)]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The summary for programs; ``docs/command_line.md`` says what is in it."""
        first = self._sides[0]
        dropped, late = self._dropped(), [tally for tally in self._tallies.values() if tally.what in LATE]
        inputs: dict[str, dict[str, Any]] = {
            side.path_option: {
                "read_records": self._count(side.name, READ),
                "dropped_records": {tally.what: tally.records for tally in dropped if tally.place == side.name},
                "late_records": {tally.what: tally.records for tally in late if tally.place == side.name},
            }
            for side in self._names.sides
        }
        rows = inputs[self._names.sides[0].path_option]
        rows["rows"] = count = self._count(first, ROWS)
        if self._matches:
            rows |= {"unmatched_rows": count - self._count(first, MATCHED), "unreferring_rows": self._count(first, UNREFERRING)}
        return {
            "command": self._names.command,
            "inputs": inputs,
            "dropped_by_join_records": {tally.what: tally.records for tally in dropped if tally.place == JOIN},
            "outputs": {
                output: {"written_records": self._written(output), "size_bytes": _bytes(paths), "paths": list(paths)}
                for output, paths in self._files.items()
            },
            "phase_seconds": {phase: round(taken, 3) for phase, taken in self._seconds.items()},
            "total_seconds": round(sum(self._seconds.values()), 3),
            "remarks": list(self._remarks),
        }

    def _count(self, place: str, what: str) -> int:
        tally = self._tallies.get((place, what))
        return tally.records if tally else 0

    def _dropped(self) -> list[Tally]:
        dropped = [tally for (place, what), tally in self._tallies.items() if place and what not in _NOT_DROPPED]
        return sorted(dropped, key=lambda tally: ([*self._sides, JOIN].index(tally.place), tally.what))

    def _written(self, output: str) -> int:
        return sum(part.records for part in self._parts if part.output == output)


def _line(what: str, count: int) -> str:
    return f"  {what:<19} {count:>10,}"


def _bytes(paths: Sequence[str]) -> int:
    return sum(file.bytes for path in paths for file in matching(path))
