"""The page: one HTML file that asks nobody for anything."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from string import Template
from typing import Any, Final

from plotly.offline import get_plotlyjs

from beam_joins.pipelines.changelog_files.read_changelog import READ
from beam_joins.pipelines.changelog_files.tally import NULL_FOREIGN_KEY, Tally, add_up
from beam_joins.pipelines.changelog_files.write_parts import Report
from beam_joins.pipelines.command.input_error import writing
from beam_joins.pipelines.command.summary import LATE, MATCHED, REASONS, ROWS, UNREFERRING
from beam_joins.pipelines.report import charts
from beam_joins.pipelines.report.picture import picture
from beam_joins.pipelines.report.references import ReferenceCounts, references_in
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
<p>Changes read and changes of the result by event time. A change of a customer gives one of each of their orders.$outside</p>
$over_time
<h2>Customers that cause most work</h2>
<p>$work</p>
<div class="pair">$busiest $distribution</div>
<h2>Dropped, late and ambiguous records</h2>
$dropped
<h2>Orders without a customer</h2>
<p>$unmatched</p>
$missing
</body>
</html>
"""
)
_HIDDEN: Final = ("Tally", "Report", "Times", "Samples", "References", "Without", "Records")
"""First words of steps that are not drawn."""


def write_page(path: str, report: Report, seconds: Mapping[str, float]) -> None:
    """Write the page of a run with figures. Raises OutputError."""
    page = page_of(report, seconds, datetime.now(UTC))
    with writing(path), open(path, "w", encoding="utf-8") as file:
        file.write(page)


def page_of(report: Report, seconds: Mapping[str, float], made: datetime) -> str:
    """The page as text."""
    tallies, references = add_up(report.tallies), references_in(report.figures)
    times = {place: times_in(report.figures, place) for place in ("orders", "customers", "result")}
    drawn = charts.divs(
        [
            ("phases", charts.phases(seconds)),
            ("speeds", charts.speeds(_speeds(report))),
            ("over_time", charts.over_time(times)),
            ("busiest", charts.busiest(references)),
            ("distribution", charts.distribution(references)),
        ]
    )
    rows, matched, unreferring = (_count(tallies, "orders", what) for what in (ROWS, MATCHED, UNREFERRING))
    return _PAGE.substitute(
        title="Orders with their customers",
        made=f"Report of the run that ended on {made:%Y-%m-%d at %H:%M} UTC, after {sum(seconds.values()):,.1f} s.",
        plotly=get_plotlyjs(),
        tiles="".join(_tile(*tile) for tile in _tiles(report, tallies)),
        picture=_picture(report, tallies),
        outside=" Up to 0.1 % of them at either end may lie outside of what is shown.",
        work=_work(references),
        dropped=_dropped(report, tallies),
        unmatched=escape(
            f"{rows - matched:,} of the {rows:,} orders in the end have no customer: {unreferring:,} refer to none, "
            f"{references.orders_missing:,} to {references.customers_missing:,} customers that are not there."
        ),
        missing=_missing(references),
        **drawn,
    )


def _count(tallies: Mapping[tuple[str, str], Tally], place: str, what: str) -> int:
    return tallies[place, what].records if (place, what) in tallies else 0


def _tiles(report: Report, tallies: Mapping[tuple[str, str], Tally]) -> Iterable[tuple[int, str, bool]]:
    for place in ("orders", "customers"):
        yield _count(tallies, place, READ), f"changes of {place} read", False
    for name, said in (("changes", "changes of the result"), ("latest", "rows in the final table")):
        if any(part.output == name for part in report.parts):
            yield sum(part.records for part in report.parts if part.output == name), said, False
    dropped = sum(tally.records for (place, what), tally in tallies.items() if place and what in REASONS and what != NULL_FOREIGN_KEY)
    yield dropped, "records dropped", dropped > 0
    late = sum(tally.records for (_, what), tally in tallies.items() if what in LATE)
    yield late, "late records", late > 0
    alone = _count(tallies, "orders", ROWS) - _count(tallies, "orders", MATCHED)
    yield alone, "orders without a customer", alone > 0


def _tile(count: int, said: str, look: bool) -> str:
    return f'<div class="tile{" look" if look else ""}"><b>{count:,}</b><span>{escape(said)}</span></div>'


def _speeds(report: Report) -> dict[str, tuple[int, float]]:
    """Rows and seconds by step, as far as they are known."""
    watched = report.watched
    if watched is None:
        return {}
    read = {f"read {name}": (each.rows, each.seconds) for name, each in zip(("orders", "customers"), watched.read, strict=True)}
    engine = {} if watched.engine is None else watched.engine.steps
    names = {"Orders": "table of orders", "Customers": "table of customers", "Enrich": "join", "Latest": "final table"}
    return read | {said: (engine[name].rows_in, engine[name].seconds) for name, said in names.items() if name in engine}


def _picture(report: Report, tallies: Mapping[tuple[str, str], Tally]) -> str:
    watched = report.watched
    if watched is None:
        return ""
    engine = {} if watched.engine is None else watched.engine.steps
    said = {name: f"{step.rows_in:,} in, {step.rows_out:,} out" for name, step in engine.items()}
    said |= {f"Read {place}": f"{_count(tallies, place, READ):,} changes" for place in ("orders", "customers")}
    for name in dict.fromkeys(part.output for part in report.parts):
        said[f"Write {name}"] = f"{sum(part.records for part in report.parts if part.output == name):,} records"
    hidden = {step.name: step.takes for step in watched.steps if step.name.split(" ")[0] in _HIDDEN}

    def through(takes: tuple[str, ...]) -> tuple[str, ...]:
        """What is taken, where a step that is not drawn lies between from where that takes it."""
        return tuple(dict.fromkeys(name for taken in takes for name in (through(hidden[taken]) if taken in hidden else (taken,))))

    return picture([step._replace(takes=through(step.takes)) for step in watched.steps], said, _HIDDEN)


def _work(references: ReferenceCounts) -> str:
    changes = sum(changes for _, changes in references.sizes.values())
    customers = sum(customers for customers, _ in references.sizes.values())
    top = sum(row["results"] for row in references.busiest)
    share = f" The {len(references.busiest)} busiest have {top / changes:.1%} of them." if changes else ""
    return escape(f"{changes:,} changes of the result are of {customers:,} customers.{share}")


def _dropped(report: Report, tallies: Mapping[tuple[str, str], Tally]) -> str:
    samples = samples_in(report.figures)
    rows = [
        (place, {**REASONS, **LATE}[what].format(side=place), what, tally.records, [*tally.examples, *samples.get((place, what), ())])
        for (place, what), tally in sorted(tallies.items())
        if what in REASONS or what in LATE
    ]
    body = "".join(
        f'<tr><td>{escape(place)}</td><td>{escape(said)} ({what})</td><td class="n">{count:,}</td><td>{_codes(examples)}</td></tr>'
        for place, said, what, count, examples in rows
    )
    return _table(("of", "why", "#records", "some of them"), body) if rows else "<p>There are none.</p>"


def _missing(references: ReferenceCounts) -> str:
    rows = [{"reference": "none", **references.none}] if references.none and references.none["orders"] else []
    rows = [*({**row, "reference": "refers to none"} for row in rows), *references.missing]
    body = "".join(
        f'<tr><td>{escape(str(row["reference"]))}</td><td class="n">{row["orders"]:,}</td><td>{escape(str(row["example"]))}</td></tr>'
        for row in rows
    )
    return _table(("customer that is not there", "#orders", "one of them"), body) if rows else ""


def _table(heads: Sequence[str], body: str) -> str:
    shown = "".join(f'<th class="n">{head[1:]}</th>' if head.startswith("#") else f"<th>{head}</th>" for head in heads)
    return f'<div class="wide"><table><tr>{shown}</tr>{body}</table></div>'


def _codes(examples: Sequence[Any]) -> str:
    return "".join(f"<code>{escape(str(example))}</code>" for example in examples)
