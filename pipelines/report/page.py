"""The page: one HTML file that asks nobody for anything."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from string import Template
from typing import Any, Final

from plotly.offline import get_plotlyjs

from beam_joins.pipelines.changelog_files.read_changelog import READ
from beam_joins.pipelines.changelog_files.tally import NULL_FOREIGN_KEY, add_up
from beam_joins.pipelines.changelog_files.write_parts import Report
from beam_joins.pipelines.command.input_error import writing
from beam_joins.pipelines.jobs.names import Names
from beam_joins.pipelines.jobs.summary import LATE, MATCHED, REASONS, ROWS, UNREFERRING
from beam_joins.pipelines.report import charts
from beam_joins.pipelines.report.counted import RESULT_TIMES
from beam_joins.pipelines.report.figure import REFERENCES
from beam_joins.pipelines.report.picture import picture
from beam_joins.pipelines.report.references import EXAMPLE, LEFT, RESULT, ReferenceCounts, references_in
from beam_joins.pipelines.report.samples import samples_in
from beam_joins.pipelines.report.times import times_in

_PAGE: Final = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2a3d; max-width: 1120px; margin: 0 auto; padding: 24px; background: #fff }
h1 { font-size: 26px; margin: 0 } h2 { font-size: 19px; margin: 36px 0 4px } p { margin: 4px 0 12px; color: #4a5468 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 12px; margin-top: 18px }
.tile { border: 1px solid #d9e0ea; border-radius: 10px; padding: 10px 14px } .tile b { display: block; font-size: 20px }
.tile.look { border-color: #e0a12b; background: #fff8ea } .tile span { color: #4a5468; font-size: 13px }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 16px } .pair > * { min-width: 0 }
.picture svg { width: 100%; height: auto } table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid #e6ebf2; vertical-align: top } th { font-size: 13px; color: #4a5468 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } code { font-size: 12px; display: block; overflow-wrap: anywhere }
</style>
<script>$plotly</script>
</head>
<body>
<h1>$title</h1>
<p>$made</p>
<div class="tiles">$tiles</div>
<h2>The pipeline</h2>
<div class="wide picture">$picture</div>
<h2>Time</h2>
<p>Where the seconds of the run went, and how many rows a second the workers read and joined while they did nothing else.</p>
$phases
$speeds
<h2>Changes over time</h2>
<p>Changes read and changes of the result by event time. Up to 0.1 % of them at either end may lie outside of what is shown.</p>
$over_time
$references
<h2>Dropped, late and ambiguous records</h2>
$dropped
$unmatched
</body>
</html>
"""
)
_HIDDEN: Final = ("Tally", "Report", "Times", "Samples", "References", "Without", "Records", "Count")
"""First words of steps that are not drawn."""


def write_page(path: str, names: Names, report: Report, seconds: Mapping[str, float]) -> None:
    """Write the page of a run with figures. Raises OutputError."""
    page = page_of(names, report, seconds, datetime.now(UTC))
    with writing(path), open(path, "w", encoding="utf-8") as file:
        file.write(page)


def page_of(names: Names, report: Report, seconds: Mapping[str, float], made: datetime) -> str:
    """The page as text."""
    of = _Run(names, report)
    times = {place: times_in(report.figures, place) for place in (*of.sides, RESULT_TIMES)}
    drawn = charts.divs(
        [
            ("phases", charts.phases(seconds)),
            ("speeds", charts.speeds(of.speeds())),
            ("over_time", charts.over_time(times)),
        ]
    )
    refers = any(figure.what == REFERENCES for figure in report.figures)
    references = references_in(report.figures)
    return _PAGE.substitute(
        title=escape(names.about.partition(":")[0].rstrip(".")),
        made=f"Report of the run that ended on {made:%Y-%m-%d at %H:%M} UTC, after {sum(seconds.values()):,.1f} s.",
        plotly=get_plotlyjs(),
        tiles="".join(_tile(*tile) for tile in of.tiles()),
        picture=of.picture(),
        references=of.busiest(references) if refers else "",
        dropped=of.dropped(),
        unmatched=of.unmatched(references, refers),
        **drawn,
    )


class _Run:
    """What the page says of a run."""

    def __init__(self, names: Names, report: Report) -> None:
        self.sides = [side.name for side in names.sides]
        self._names, self._report, self._tallies = names, report, add_up(report.tallies)
        self._matches = (self.sides[0], MATCHED) in self._tallies
        self._steps = {} if report.watched is None or report.watched.engine is None else report.watched.engine.steps

    def tiles(self) -> Iterable[tuple[int, str, bool]]:
        """Numbers, what they are of, and whether they should be looked at."""
        for side in self.sides:
            yield self._count(side, READ), f"changes of {side} read", False
        for name, said in (("changes", "changes of the result"), ("latest", "rows in the final table")):
            if any(part.output == name for part in self._report.parts):
                yield self._written(name), said, False
        dropped = sum(tally.records for (_, what), tally in self._tallies.items() if what in REASONS and what != NULL_FOREIGN_KEY)
        yield dropped, "records dropped", dropped > 0
        late = sum(tally.records for (_, what), tally in self._tallies.items() if what in LATE)
        yield late, "late records", late > 0
        if self._matches:
            alone = self._count(self.sides[0], ROWS) - self._count(self.sides[0], MATCHED)
            yield alone, f"{self.sides[0]} without {self._names.match}", alone > 0

    def speeds(self) -> dict[str, tuple[int, float]]:
        """Rows and seconds by step, as far as they are known."""
        if self._report.watched is None:
            return {}
        read = {f"read {side}": (each.rows, each.seconds) for side, each in zip(self.sides, self._report.watched.read, strict=True)}
        said = {**{side.capitalize(): f"table of {side}" for side in self.sides}, "Join": "join", "Latest": "final table"}
        return read | {
            text: (self._steps[name].rows_in, self._steps[name].seconds) for name, text in said.items() if name in self._steps
        }

    def picture(self) -> str:
        """The steps with what went through them."""
        watched = self._report.watched
        if watched is None:
            return ""
        said = {name: f"{step.rows_in:,} in, {step.rows_out:,} out" for name, step in self._steps.items()}
        said |= {f"Read {side}": f"{self._count(side, READ):,} changes" for side in self.sides}
        for name in dict.fromkeys(part.output for part in self._report.parts):
            said[f"Write {name}"] = f"{self._written(name):,} records"
        hidden = {step.name: step.takes for step in watched.steps if step.name.split(" ")[0] in _HIDDEN}

        def through(takes: tuple[str, ...]) -> tuple[str, ...]:
            """What is taken, where a step that is not drawn lies between from where that takes it."""
            return tuple(dict.fromkeys(name for taken in takes for name in (through(hidden[taken]) if taken in hidden else (taken,))))

        return picture([step._replace(takes=through(step.takes)) for step in watched.steps], said, _HIDDEN)

    def busiest(self, references: ReferenceCounts) -> str:
        """The right rows that most changes of the result are of."""
        lefts, rights = self.sides
        changes = sum(changes for _, changes in references.sizes.values())
        rows = sum(rows for rows, _ in references.sizes.values())
        share = (
            f" The {len(references.busiest)} busiest have {sum(row[RESULT] for row in references.busiest) / changes:.1%} of them."
            if changes
            else ""
        )
        drawn = charts.divs(
            [("busiest", charts.busiest(references, lefts, rights)), ("distribution", charts.distribution(references, rights))]
        )
        said = escape(
            f"{changes:,} changes of the result are of {rows:,} {rights}.{share} A change of one of them gives one of each of the {lefts} that refer to it."
        )
        return (
            f"<h2>{escape(rights.capitalize())} that cause most work</h2><p>{said}</p>"
            f'<div class="pair">{drawn["busiest"]} {drawn["distribution"]}</div>'
        )

    def dropped(self) -> str:
        """Records that were dropped or late, by reason, with some of them."""
        samples, names = samples_in(self._report.figures), self._names
        flags = {side.name: side.flag("sequence") for side in names.sides}
        body = "".join(
            f"<tr><td>{escape(place)}</td>"
            f"<td>{escape({**REASONS, **LATE}[what].format(flag=flags.get(place, ''), unreferring=names.unreferring))} ({what})</td>"
            f'<td class="n">{tally.records:,}</td><td>{_codes([*tally.examples, *samples.get((place, what), ())])}</td></tr>'
            for (place, what), tally in sorted(self._tallies.items())
            if what in REASONS or what in LATE
        )
        return _table(("of", "why", "#records", "some of them"), body) if body else "<p>There are none.</p>"

    def unmatched(self, references: ReferenceCounts, refers: bool) -> str:
        """The left rows without a right one, and the right rows that are missing."""
        if not self._matches:
            return ""
        lefts, rights = self.sides
        rows, matched, unreferring = (self._count(lefts, what) for what in (ROWS, MATCHED, UNREFERRING))
        to_none = (
            f": {unreferring:,} refer to none, {references.lefts_missing:,} to {references.rights_missing:,} {rights} that are not there"
            if refers
            else ""
        )
        said = f"{rows - matched:,} of the {rows:,} {lefts} in the end have no match{to_none}."
        none = (
            [{"reference": "refers to none", **{name: references.none[name] for name in (LEFT, EXAMPLE)}}] if references.none else []
        )
        body = "".join(
            f'<tr><td>{escape(str(row["reference"]))}</td><td class="n">{row[LEFT]:,}</td><td>{escape(str(row[EXAMPLE]))}</td></tr>'
            for row in (*none, *references.missing)
            if row[LEFT]
        )
        table = _table((f"key of {rights} that are not there", f"#{lefts}", "one of them"), body) if body else ""
        return f"<h2>{escape(lefts.capitalize())} without {escape(self._names.match)}</h2><p>{escape(said)}</p>{table}"

    def _count(self, place: str, what: str) -> int:
        return self._tallies[place, what].records if (place, what) in self._tallies else 0

    def _written(self, output: str) -> int:
        return sum(part.records for part in self._report.parts if part.output == output)


def _tile(count: int, said: str, look: bool) -> str:
    return f'<div class="tile{" look" if look else ""}"><b>{count:,}</b><span>{escape(said)}</span></div>'


def _table(heads: Sequence[str], body: str) -> str:
    shown = "".join(f'<th class="n">{head[1:]}</th>' if head.startswith("#") else f"<th>{head}</th>" for head in heads)
    return f'<div class="wide"><table><tr>{shown}</tr>{body}</table></div>'


def _codes(examples: Sequence[Any]) -> str:
    return "".join(f"<code>{escape(str(example))}</code>" for example in examples)
