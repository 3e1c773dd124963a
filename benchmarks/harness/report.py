"""The figures as Markdown."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from benchmarks.harness.environments import versions
from benchmarks.harness.figures import Bounds, Figure, Measurement
from benchmarks.harness.lineup import BY_RUNNER, DUCKDB, OURS, OURS_DIRECT, PYSPARK, Case
from benchmarks.harness.targets import Held, held
from benchmarks.works import WORKS

_HEADER: Final = ("contestant", "start-up", "total", "total / PySpark SQL", "processors", "JVM, peak", "Python, peak", "rows")
FIRST_CASE: Final = "fk-uniform"
"""The case of the README."""
FIRST: Final = {
    OURS_DIRECT: "`ForeignKeyJoin`, all cores (`beam_joins.LocalRunner`)",
    OURS: "`ForeignKeyJoin`, Spark",
    PYSPARK: "PySpark SQL, written by hand",
    "beam_cogroup, Spark": "plain Beam, `CoGroupByKey`, Spark (extrapolated)",
    DUCKDB: "DuckDB, the floor",
}
"""What the README calls the contestants that it shows."""


def report(cases: Iterable[Case], measured: Mapping[str, Measurement]) -> str:
    """All tables: one for each case that was measured, then the targets."""
    every = [measured[case.name] for case in cases if case.name in measured]
    machines = {each.machine: [other.case for other in every if other.machine == each.machine] for each in every}
    parts = [text if len(machines) == 1 else f"{', '.join(of)}: {text}" for text, of in machines.items()]
    parts += ["\n".join(case_table(case, measured[case.name])) for case in cases if case.name in measured]
    return "\n\n".join([*parts, "\n".join(target_table(held(measured)))]) + "\n"


def machine() -> str:
    """What it was measured with."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ", ".join(f"{name} {version(name)}" for name in ("apache-beam", "pyspark", "duckdb", "numpy", "pyarrow"))
    return f"{os.cpu_count()} cores, {gigabytes(memory)} of memory, Python {platform.python_version()}, {packages}, {versions()}."


def case_table(case: Case, measured: Measurement) -> Iterator[str]:
    """The table of a case, line by line."""
    data = case.dataset(case.size)
    yield f"### {case.name}"
    yield ""
    first, *others = WORKS[case.work].tables
    rows = [f"{first} {data.left:,} rows over {data.left_ids:,} keys"]
    rows += [f"{other} {data.right:,} rows over {data.right_ids:,} keys" for other in others]
    meaning = WORKS[case.work].meaning
    yield f"{meaning[0].upper()}{meaning[1:]}: {', '.join(rows)}."
    yield ""
    peer = measured.of(PYSPARK)
    yield from _table(_HEADER, [row(figure, peer) for figure in measured.figures])
    for figure in measured.figures:
        if figure.extrapolated and not figure.trouble:
            yield ""
            yield f"≈ {figure.contestant}: measured at {figure.measured_at:,} {case.unit}, extrapolated to {figure.size:,}."
    if measured.disturbed:
        yield ""
        yield f"Runs that other programs slowed down: {measured.disturbed}."


def row(figure: Figure, peer: Figure | None) -> tuple[str, ...]:
    """The cells of a figure."""
    if figure.trouble:
        trouble = figure.trouble if figure.skipped or figure.trouble.startswith("differs") else f"failed: {figure.trouble}"
        return (figure.contestant, trouble.replace("|", "\\|"), *[""] * (len(_HEADER) - 2))
    about = "≈ " if figure.extrapolated else ""
    return (
        figure.contestant,
        seconds(figure.start),
        f"{about}{seconds(figure.total)}{_range(figure)}",
        f"{about}{number(figure.total / peer.total)}" if peer else "",
        about + seconds(figure.processor),
        gigabytes(figure.jvm) if figure.jvm else "-",
        gigabytes(figure.python),
        f"{figure.rows:,}",
    )


def _range(figure: Figure) -> str:
    least, most = figure.between
    return "" if len(figure.totals) == 1 else f" ({seconds(least).removesuffix(' s')} to {seconds(most).removesuffix(' s')})"


def target_table(targets: Iterable[Held]) -> Iterator[str]:
    """The table of the targets, line by line."""
    yield "### Targets"
    yield ""
    rows = []
    for target in targets:
        limit = f"{'at most' if target.most else 'at least'} {number(target.limit)}"
        value = "" if target.value is None or target.between is None else _with_bounds(target.value, target.between)
        rows.append((target.meaning, limit, value, target.verdict))
    yield from _table(("total / total", "limit", "measured", ""), rows)


def first_table(measured: Mapping[str, Measurement]) -> str:
    """The table of the README."""
    figures = [figure for name in FIRST if (case := measured.get(FIRST_CASE)) and (figure := case.of(name))]
    cells = [(FIRST[each.contestant], seconds(each.total), seconds(each.start)) for each in figures]
    return "\n".join(_table(("", "total", "start-up (included)"), cells)) + "\n"


def ratio_table(cases: Iterable[Case], measured: Mapping[str, Measurement]) -> str:
    """The table of the page for readers: totals by PySpark SQL's."""
    rows = []
    for case in cases:
        of_case = measured.get(case.name)
        if of_case and (peer := of_case.of(PYSPARK)):
            ours = {each.contestant for each in of_case.figures if each.contestant.startswith(("beam_joins", "pipelines"))}
            parts = {each.contestant: number(each.total / peer.total) for each in of_case.figures if not each.trouble}
            of_runners = [next((parts[name] for name in names if name in parts), "") for names in BY_RUNNER]
            others = "; ".join(f"{name} {part}" for name, part in parts.items() if name not in (*ours, PYSPARK))
            rows.append((f"{WORKS[case.work].meaning}; {case.size:,} {case.unit}", seconds(peer.total), *of_runners, others))
    return "\n".join(_table(("case", PYSPARK, "on Spark", "on all cores", "other programs"), rows)) + "\n"


def _with_bounds(value: float, between: Bounds) -> str:
    return number(value) if between.least == between.most else f"{number(value)} ({number(between.least)} to {number(between.most)})"


def seconds(value: float) -> str:
    """A duration.

    >>> seconds(0.123), seconds(12.345), seconds(1234.5)
    ('0.12 s', '12.3 s', '1,234 s')
    """
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 1000 else f"{value:,.0f} s"


def gigabytes(value: int) -> str:
    """A size of memory, in powers of ten.

    >>> gigabytes(1_260_000_000), gigabytes(83_000_000)
    ('1.3 GB', '0.08 GB')
    """
    return f"{value / 1e9:.1f} GB" if value >= 10**9 else f"{value / 1e9:.2f} GB"


def number(value: float) -> str:
    """A ratio or a count.

    >>> number(0.4567), number(12.34), number(110000)
    ('0.46', '12.3', '110,000')
    """
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"
