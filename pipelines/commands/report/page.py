"""The page of a report: one HTML file without scripts, which loads nothing."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any, Final

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.commands.report.charts import Bar, bars, over_time, parts, short
from beam_joins.pipelines.commands.report.picture import picture
from beam_joins.pipelines.commands.report.slowest import sentences, slowest
from beam_joins.pipelines.commands.report.style import STYLE
from beam_joins.pipelines.formats.changelog_columns import REFERENCE
from beam_joins.pipelines.results.figure import (
    CHANGED,
    EXAMPLE,
    LEFT,
    RESULT,
    RESULT_TIMES,
    ReferenceCounts,
    references_in,
    samples_in,
    times_in,
)

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.summary import Summary

_PAGE: Final = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
<p>$made</p>
<div class="tiles">$tiles</div>
<h2>The time</h2>
<p id="slowest">$slowest</p>
$phases
<h2>The pipeline</h2>
<div class="wide">$picture</div>
$stages
<h2>Changes over time</h2>
$over_time
$references
<h2>Records that are no changes</h2>
$dropped
$unmatched
</body>
</html>
"""
)
_HIDDEN: Final = ("Tally", "Report", "Times", "Samples", "References", "Without", "Records", "Count")
"""First words of steps that are not drawn."""


def write_page(path: str, summary: "Summary") -> None:
    """Write the page about a run. Raises OutputError."""
    from beam_joins.pipelines.base.paths import absolute  # noqa: PLC0415  # with Beam, which the page does without
    from beam_joins.transforms.connect.files import write_whole  # noqa: PLC0415

    page = page_of(summary, datetime.now(UTC))
    with writing(path):
        write_whole(absolute(path), page.encode())


def page_of(summary: "Summary", made: datetime) -> str:
    """The page as text; ``made`` is when the run has ended."""
    sides, seconds, stages = summary.sides, summary.seconds, summary.stages()
    references = references_in(summary.figures)
    return _PAGE.substitute(
        style=STYLE,
        title=escape(summary.title),
        made=f"Report of the run that ended on {made:%Y-%m-%d at %H:%M} UTC, after {sum(seconds.values()):,.1f} s.",
        tiles="".join(_tile(*tile) for tile in _tiles(summary)),
        slowest=escape(" ".join(sentences(stages, seconds, references, sides[-1]))),
        phases=parts("phases", {phase: (taken, f"{taken:,.1f} s") for phase, taken in seconds.items()}),
        picture=_picture(summary),
        stages=_stages(summary),
        over_time=over_time("over_time", {place: times_in(summary.figures, place) for place in (*sides, RESULT_TIMES)}),
        references="" if references is None else _busiest(references, *sides),
        dropped=_dropped(summary),
        unmatched=_unmatched(summary, references) if summary.matches else "",
    )


def _tiles(summary: "Summary") -> Iterable[tuple[int, str, bool]]:
    """Numbers, what they are of, and whether they should be looked at."""
    for side in summary.sides:
        yield summary.read(side), f"changes of {side} read", False
    for output in summary.files:
        yield summary.written(output), summary.what(output), False
    dropped, late = (sum(tally.records for tally in tallies) for tallies in (summary.lost(), summary.late()))
    yield dropped, "records dropped", dropped > 0
    yield late, "late records", late > 0
    if summary.matches:
        alone = summary.unmatched()
        yield alone, f"{summary.sides[0]} without {summary.spec.match}", alone > 0


def _picture(summary: "Summary") -> str:
    """The steps with the rows that went through them; the slowest is marked."""
    if summary.watched is None:
        return ""
    stages = {stage.step: stage for stage in summary.stages()}
    texts = {step: f"{short(stage.rows_in)} in, {short(stage.rows_out)} out" for step, stage in stages.items()}
    texts |= {f"Write {output}": f"{short(summary.written(output))} records" for output in summary.files}
    texts |= {step: f"{short(stage.rows_in)} records" for step, stage in stages.items() if step.startswith("Read ")}
    marked = slowest([*stages.values()])
    return picture(summary.steps(), texts, _HIDDEN, marked.step if marked else "")


def _stages(summary: "Summary") -> str:
    """The seconds that workers spent in each stage, and the rows per second."""
    stages, marked = summary.stages(), slowest(summary.stages())
    return bars(
        "stages",
        "Seconds that all workers together were timed in each stage",
        [
            Bar(
                stage.name,
                stage.seconds,
                f"{stage.seconds:,.1f} s, {stage.rows_in / stage.seconds:,.0f} rows/s",
                marked=stage == marked,
            )
            for stage in stages
            if stage.seconds > 0
        ],
    )


def _busiest(references: ReferenceCounts, lefts: str, rights: str) -> str:
    """The right rows that cause most changes of the result, and how many right rows have how many of them."""
    changes = sum(changes for _, changes in references.sizes.values())
    rows = sum(rows for rows, _ in references.sizes.values())
    share = sum(row[RESULT] for row in references.busiest) / (changes or 1)
    about = f"{changes:,} changes of the result are of {rows:,} {rights}; the {len(references.busiest)} busiest have {share:.1%}."
    busiest = [
        Bar(str(row[REFERENCE]), row[RESULT], f"{row[RESULT]:,}", f"{row[LEFT]:,} final {lefts}, changed {row[CHANGED]:,} times")
        for row in references.busiest
    ]
    sizes = [
        Bar(_size(size), count, f"{count:,} ({of_size / changes:.1%})") for size, (count, of_size) in sorted(references.sizes.items())
    ]
    left = bars("busiest", f"Changes of the result, by key of the {rights}", busiest)
    right = bars("distribution", f"{rights.capitalize()} by the changes that each has, and their share", sizes)
    return f'<h2>{escape(rights.capitalize())} that cause most work</h2><p>{escape(about)}</p><div class="pair">{left}{right}</div>'


def _size(size: int) -> str:
    return f"{2**size:,} to {2 ** (size + 1) - 1:,}" if size else "1"


def _dropped(summary: "Summary") -> str:
    """Records that were dropped, passed over or late, by reason, with some of them."""
    samples = samples_in(summary.figures)
    body = "".join(
        f"<tr><td>{escape(tally.place)}</td><td>{escape(summary.reason(tally))}</td>"
        f'<td class="n">{tally.records:,}</td><td>{_codes(tally.examples or samples.get((tally.place, tally.what), ()))}</td></tr>'
        for tally in (*summary.dropped(), *summary.passed_over(), *summary.late())
    )
    return _table(("of", "why", "#records", "some of them"), body) if body else "<p>There are none.</p>"


def _unmatched(summary: "Summary", references: ReferenceCounts | None) -> str:
    """The left rows without a right one, and the right rows that are missing."""
    lefts, rights = summary.sides
    alone = summary.unmatched()
    about = f"{alone:,} of {summary.rows():,} final {lefts}" if alone else f"All final {lefts} have {summary.spec.match}"
    rows: list[dict[str, Any]] = []
    if references is not None:
        if alone:
            about += f": {summary.unreferring():,} with a null foreign key, {references.lefts_missing:,} with keys of absent {rights} "
            about += f"({counted(references.rights_missing, 'key')})"
        rows = [*([{**references.none, REFERENCE: "null"}] if references.none else []), *references.missing]
    body = "".join(
        f'<tr><td>{escape(str(row[REFERENCE]))}</td><td class="n">{row[LEFT]:,}</td><td>{escape(str(row[EXAMPLE]))}</td></tr>'
        for row in rows
        if row[LEFT]
    )
    table = _table((f"key of absent {rights}", f"#{lefts}", "one of them"), body) if body else ""
    return f"<h2>{escape(lefts.capitalize())} without {escape(summary.spec.match)}</h2><p>{escape(about)}.</p>{table}"


def _tile(count: int, text: str, look: bool) -> str:
    return f'<div class="tile{" look" if look else ""}"><b>{count:,}</b><span>{escape(text)}</span></div>'


def _table(heads: Sequence[str], body: str) -> str:
    shown = "".join(f'<th class="n">{escape(head[1:])}</th>' if head.startswith("#") else f"<th>{escape(head)}</th>" for head in heads)
    return f'<div class="wide"><table><tr>{shown}</tr>{body}</table></div>'


def _codes(examples: Sequence[str]) -> str:
    return "".join(f"<code>{escape(example)}</code>" for example in examples)
