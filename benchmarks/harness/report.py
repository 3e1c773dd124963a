"""The figures as Markdown."""

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from benchmarks.harness.environments import versions
from benchmarks.harness.figures import Bounds, Figure, ratio
from benchmarks.harness.lineup import PYSPARK, Case
from benchmarks.harness.noise import TOO_SHORT, too_short
from benchmarks.harness.targets import Target
from benchmarks.works import WORKS

_HEADER = ("contestant", "start-up", "work", "total", "work / PySpark SQL", "total / PySpark SQL", "JVM, peak", "Python, peak", "rows")


def report(
    cases: Sequence[Case],
    figures: Sequence[Figure],
    targets: Sequence[Target],
    disturbed: tuple[int, int] = (0, 0),
    rounds: tuple[int, int] = (0, 0),
) -> str:
    """All tables: one for each case, then the targets.

    ``disturbed`` says how many runs of how many others have slowed down, ``rounds`` how many the figures
    have, the fewest and the most.
    """
    parts = [machine()]
    if rounds[1]:
        fewest, most = rounds
        parts.append(f"{fewest if fewest == most else f'{fewest} to {most}'} round{'s' * (most > 1)} of each.")
    if disturbed[0]:
        parts.append(
            f"{disturbed[0]} of {disturbed[1]} runs shared the processors with something else: repeat them on a quiet machine."
        )
    for case in cases:
        of_case = [figure for figure in figures if figure.case == case.name]
        if of_case:
            parts.append("\n".join(case_table(case, of_case)))
    parts.append("\n".join(target_table(targets)))
    return "\n\n".join(parts) + "\n"


def machine() -> str:
    """What it was measured with."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ", ".join(f"{name} {version(name)}" for name in ("apache-beam", "pyspark", "duckdb", "numpy", "pyarrow"))
    return f"{os.cpu_count()} cores, {gigabytes(memory)} of memory, Python {platform.python_version()}, {packages}, {versions()}."


def case_table(case: Case, figures: Sequence[Figure]) -> Iterator[str]:
    """The table of a case, line by line."""
    peer = next((figure for figure in figures if figure.contestant == PYSPARK and not figure.trouble), None)
    data = case.dataset(case.size)
    yield f"### {case.name}"
    yield ""
    first, *others = WORKS[case.work].tables
    rows = [f"{first} {data.left:,} rows over {data.left_ids:,} keys"]
    rows += [f"{other} {data.right:,} rows over {data.right_ids:,} keys" for other in others]
    yield f"{WORKS[case.work].meaning.capitalize()}: {', '.join(rows)}."
    yield ""
    yield from _table(_HEADER, [row(figure, peer) for figure in figures])
    for figure in figures:
        if figure.extrapolated and not figure.trouble:
            at = " and ".join(f"{size:,}" for size in figure.measured_at)
            yield ""
            yield f"≈ {figure.contestant}: measured at {at} {case.unit}, extrapolated to {case.size:,}."


def row(figure: Figure, peer: Figure | None) -> tuple[str, ...]:
    """The cells of a figure."""
    if figure.trouble:
        trouble = figure.trouble if figure.skipped or figure.trouble.startswith("differs") else f"failed: {figure.trouble}"
        return (figure.contestant, _cell(trouble), *[""] * (len(_HEADER) - 2))
    about = "≈ " if figure.extrapolated else ""
    short = too_short(figure)
    parts = (
        (None if short or too_short(peer) else ratio(figure.work, peer.work), ratio(figure.total, peer.total))
        if peer
        else (None, None)
    )
    ratios = [f"{about}{number(part)}" if part is not None else "" for part in parts]
    return (
        figure.contestant,
        seconds(figure.start),
        TOO_SHORT if short else about + seconds(figure.work),
        about + seconds(figure.total),
        *ratios,
        gigabytes(figure.jvm) if figure.jvm else "-",
        gigabytes(figure.python),
        f"{figure.rows:,}",
    )


def target_table(targets: Sequence[Target]) -> Iterator[str]:
    """The table of the targets, line by line; a target is kept or missed by work time, where the rounds tell."""
    yield "### Targets"
    yield ""
    rows = []
    for target in targets:
        limit = f"{'at most' if target.most else 'at least'} {number(target.limit)}"
        work = "" if target.work is None or target.between is None else _with_bounds(target.work, target.between)
        rows.append((target.meaning, limit, work, "" if target.total is None else number(target.total), target.verdict))
    yield from _table(("target", "limit", "by work time", "by total time", "work time's verdict"), rows)


def _with_bounds(value: float, between: Bounds) -> str:
    if between.least == between.most:
        return number(value)
    most = "any" if between.most == float("inf") else number(between.most)
    return f"{number(value)} ({number(between.least)} to {most})"


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


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
