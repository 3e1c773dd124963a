"""The end-of-run summary: what came in, what came out, what was dropped and why, how long it took, where it lies."""

from collections.abc import Mapping, Sequence
from typing import Final

from beam_joins.pipelines.changelog_files.paths import matching
from beam_joins.pipelines.changelog_files.read_changelog import READ
from beam_joins.pipelines.changelog_files.tally import Tally, add_up
from beam_joins.pipelines.changelog_files.write_parts import Report
from beam_joins.pipelines.command.engine_figures import EngineFigures

REASONS: Final = {
    "bad_record": "not usable as a record",
    "null_key": "without a key",
    "null_sequence": "without a sequence",
    "null_timestamp": "without a time",
    "duplicate_position": "repeated: the same record again",
    "ambiguous_position": "other records of one key and position: the last in time counts, then in the files; give a finer order: "
    "--{side}-sequence commit_lsn,lsn",
    "null_foreign_key": "orders that refer to no customer",
}
LATE: Final = {
    "late_applied": "at or before the end of the last run: applied behind it",
    "late_stale": "at or before the end of the last run, and nothing new: not applied",
}
ROWS: Final = "rows"
"""Orders in the end; of these:"""
MATCHED: Final = "matched"
UNREFERRING: Final = "unreferring"
_NOT_DROPPED: Final = frozenset({READ, ROWS, MATCHED, UNREFERRING, *LATE})


def summary(report: Report, files: Mapping[str, Sequence[str]], seconds: Mapping[str, float], remarks: Sequence[str] = ()) -> str:
    """The summary as text; ``remarks`` are sentences for its end.

    >>> from beam_joins.pipelines.changelog_files.write_parts import WrittenPart
    >>> report = Report([Tally("orders", "read", 1200), Tally("orders", "null_key", 2)], [WrittenPart("latest", "p", 7)])
    >>> print(summary(report, {}, {"run": 1.25}))
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
    tallies = add_up(report.tallies)
    lines = ["records in"]
    for place in ("orders", "customers"):
        lines.append(_line(place, tallies.get((place, READ), Tally(place, READ, 0)).records))
    lines.append("dropped")
    dropped = [tally for (place, what), tally in tallies.items() if place and what not in _NOT_DROPPED]
    for tally in sorted(dropped, key=lambda t: (("orders", "customers", "join").index(t.place), t.what)):
        lines.append(
            f"{_line(tally.place, tally.records)}  {REASONS.get(tally.what, tally.what).format(side=tally.place)} ({tally.what})"
        )
        lines += [f"    {example}" for example in tally.examples]
    if not dropped:
        lines.append("  nothing")
    if late := [tallies[side, what] for side in ("orders", "customers") for what in LATE if (side, what) in tallies]:
        lines.append("late")
        lines += [f"{_line(tally.place, tally.records)}  {LATE[tally.what]} ({tally.what})" for tally in late]
    rows, matched, unreferring = (
        tallies.get(("orders", what), Tally("orders", what, 0)).records for what in (ROWS, MATCHED, UNREFERRING)
    )
    lines.append("without a customer")
    lines.append(f"{_line('orders', rows - matched)}  of {rows:,} in the end; {unreferring:,} of them refer to none")
    if files:
        lines.append("out")
    for output, paths in files.items():
        records = sum(part.records for part in report.parts if part.output == output)
        said = "changes of the joined table" if output == "changes" else "rows in the final table"
        lines.append(f"{_line(output, records)}  {said}, {_where(paths)}")
    if report.watched is not None and report.watched.engine is not None:
        lines += _engine_lines(report.watched.engine)
    lines.append("seconds")
    lines += [f"  {phase:<19} {taken:>10,.1f}" for phase, taken in (*seconds.items(), ("all", sum(seconds.values())))]
    if remarks:
        lines += ["remarks", *(f"  {remark}" for remark in remarks)]
    return "\n".join(lines)


def _engine_lines(engine: EngineFigures) -> list[str]:
    r"""What the engine has counted: ``docs/metrics.md`` says what each figure is.

    >>> from beam_joins.pipelines.command.engine_figures import StepFigures
    >>> figures = EngineFigures({"Enrich": StepFigures(1200, 900, 2, 0.25)}, blocks=2, block_rows=1200, block_bytes=9000, largest_block=5000)
    >>> print("\n".join(_engine_lines(figures)))
    engine
      enrich                   1,200  rows in, 900 out, 2 without a partner; 0.2 s
      blocks                       2  of 600 rows and 4,500 bytes in the mean, 5,000 at most
    """
    lines = ["engine"]
    for name, step in engine.steps.items():
        alone = f", {step.unmatched:,} without a partner" if step.unmatched else ""
        lines.append(f"{_line(name.lower(), step.rows_in)}  rows in, {step.rows_out:,} out{alone}; {step.seconds:,.1f} s")
    if engine.blocks:
        mean, each = engine.block_rows / engine.blocks, engine.block_bytes / engine.blocks
        lines.append(
            f"{_line('blocks', engine.blocks)}  of {mean:,.0f} rows and {each:,.0f} bytes in the mean, {engine.largest_block:,} at most"
        )
    if engine.state_bytes:
        lines.append(f"{_line('remembered', engine.state_rows)}  rows, {engine.state_bytes:,} bytes")
    return lines


def _line(what: str, count: int) -> str:
    return f"  {what:<19} {count:>10,}"


def _where(paths: Sequence[str]) -> str:
    size = sum(file.bytes for path in paths for file in matching(path))
    place = paths[0] if len(paths) == 1 else f"{len(paths)} files {paths[0]} ..."
    return f"{size:,} bytes in {place}"
