"""What the joins do under load: ``python -m benchmarks.load``."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.process import ROOT
from benchmarks.harness.publish import publish
from benchmarks.load.cases import CASES, GB, Case
from benchmarks.load.data import provide
from benchmarks.load.watched import RunFailed, Watched


def measured(name: str, case: Case, size: int, data: Path, options: Sequence[str], limit: float) -> Watched:
    """Run a case at a size. Raises :class:`RunFailed`, for a wrong result and for too much memory too."""
    folder = provide(name.removesuffix("-copied"), size, case.make, data)
    with tempfile.TemporaryDirectory(prefix="runs-", dir=data) as scratch:
        out = Path(scratch)
        done = case.run(folder, out, [*case.options, *options], limit)
        case.check(folder, out)
    if case.most and done.peak_bytes > case.most:
        raise RunFailed(f"right, but took {done.peak_bytes / GB:.1f} GB, more than {case.most / GB:.0f}")
    return done


def row(name: str, case: Case, size: int, outcome: Watched | RunFailed) -> str:
    """A line of the table.

    >>> row("hot-key", CASES["hot-key"], 500, Watched(2.5, 3.25, 1_500_000_000, ""))
    '| `hot-key` | 500 changes of one order | 2.5 s | 3.2 s | 1.5 GB | - |'
    """
    what = f"| `{name}` | {size:,} {case.meaning}"
    if isinstance(outcome, RunFailed):
        return f"{what} | {outcome} | | | |"
    return (
        f"{what} | {outcome.seconds:.1f} s | {outcome.processor_seconds:.1f} s | {outcome.peak_bytes / GB:.1f} GB | {_sent(outcome)} |"
    )


def _sent(outcome: Watched) -> str:
    """Bytes for a row in the blocks, and for a remembered one, of the last run, where its program says so."""
    if not outcome.output.startswith("{"):
        return "-"
    figures = json.loads(outcome.output)
    blocks, state = (
        figures[f"{what}_bytes"] / figures[f"{what}_rows"] if figures[f"{what}_rows"] else 0.0 for what in ("block", "state")
    )
    return f"{blocks:,.1f}" + (f"; {state:,.1f}" if state else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code, 1 when a case has failed."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__, epilog="Other options are Beam's.")
    made.add_argument(
        "--cases", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=f"which: {', '.join(CASES)} (default: all)"
    )
    made.add_argument("--size", type=int, metavar="N", help="changes, rows or files of each case (default: its own)")
    made.add_argument("--tiny", action="store_true", help="all cases at a size that shows that they run, not how fast")
    made.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="most seconds of a run (default: %(default).0f)")
    made.add_argument(
        "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept (default: %(default)s)"
    )
    made.add_argument("--publish", action="store_true", help="write the table into docs/sizing.md")
    asked, rest = made.parse_known_args(argv)
    asked.data.mkdir(parents=True, exist_ok=True)
    lines = ["| case | input | time | processor time | memory, peak | bytes a row: sent; in the state |", "|---|---|---|---|---|---|"]
    failed = False
    for name in asked.cases:
        case = CASES[name]
        size = asked.size or (case.tiny if asked.tiny else case.size)
        outcome: Watched | RunFailed
        try:
            outcome = measured(name, case, size, asked.data.resolve(), rest, asked.limit)
        except RunFailed as failure:
            outcome, failed = failure, True
        lines.append(row(name, case, size, outcome))
        print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines))
    if asked.publish:
        publish(ROOT / "docs" / "sizing.md", "\n".join(lines), part="load")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("python -m benchmarks.load: interrupted", file=sys.stderr)
        sys.exit(130)
