"""Searches the best settings of each contestant in each case: ``python -m benchmarks.settings``.

From the defaults on, one setting after the other is varied. Each round runs the best settings so far and then its
other values, as the speed of a machine varies; the value with the least median of the ratios is kept where it is
less by a twentieth. The time is that from the start of the process to its end. A value leaves the rounds when it
is slower by a fifth, or when its median can no longer be less by a twentieth. At the end the best settings are run
beside the defaults, which stay the best where these are not slower by a twentieth. Each result is compared with
DuckDB's.
``benchmarks/settings.json`` keeps what is found, and ``python -m benchmarks`` runs each contestant with it.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.__main__ import chosen
from benchmarks.harness.lineup import CASES, Case, Contestant
from benchmarks.harness.process import ContestantFailed
from benchmarks.harness.publish import publish_all
from benchmarks.harness.rounds import LIMIT_SECONDS, Rounds
from benchmarks.harness.searched import Searched, keep, searched, searched_table

_HOPELESS: Final = 1.2
_BETTER: Final = 0.95
_RUNS: Final = 3


class Found(NamedTuple):
    """The settings that are best, their seconds and those of the defaults, and the number of settings that were tried."""

    settings: Mapping[str, str]
    default_seconds: float
    seconds: float
    tried: int


def best(choices: Mapping[str, Sequence[str]], seconds: Callable[[Mapping[str, str]], float], runs: int = _RUNS) -> Found:
    """The settings with the least ``seconds``, each varied from the best of those before, in so many rounds beside these.

    >>> best({"size": ("2", "4"), "color": ("red",)}, lambda settings: 9.0 - int(settings.get("size", 1)))
    Found(settings={'size': '4'}, default_seconds=8.0, seconds=5.0, tried=4)
    """
    kept: Mapping[str, str] = {}
    for name, values in choices.items():
        ratios = {value: list[float]() for value in values}
        for _ in range(runs):
            if left := [value for value in values if _may_be_better(ratios[value], runs)]:
                before = seconds(kept)
                for value in left:
                    ratios[value].append(seconds({**kept, name: value}) / before)
        better = {median(ratios[value]): value for value in values if _may_be_better(ratios[value], runs)}
        if better and min(better) < _BETTER:
            kept = {**kept, name: better[min(better)]}
    pairs = [(seconds({}), seconds(kept)) for _ in range(runs)]
    default, least = (median(each) for each in zip(*pairs, strict=True))
    tried = 1 + sum(map(len, choices.values()))
    return Found(kept, default, least, tried) if least < default * _BETTER else Found({}, default, default, tried)


def _may_be_better(ratios: Sequence[float], runs: int) -> bool:
    """Whether the median of so many runs can be less than that of the settings before by a twentieth."""
    return max(ratios, default=0.0) < _HOPELESS and 2 * sum(ratio >= _BETTER for ratio in ratios) < runs


def search(rounds: Rounds, case: Case, contestant: Contestant, scratch: Path, runs: int = _RUNS) -> Searched:
    """The best settings of a contestant in a case, of so many runs.

    Raises:
        ContestantFailed: it fails with its defaults.
    """

    def seconds(settings: Mapping[str, str]) -> float:
        shown = ", ".join(f"{name}: {value}" for name, value in settings.items()) or "the defaults"
        try:
            taken = rounds.once(case, contestant.having(settings), scratch).seconds
        except ContestantFailed as failure:
            if not settings:
                raise
            print(f"  {shown}: {failure}", file=sys.stderr, flush=True)
            return float("inf")
        print(f"  {shown}: {taken:.1f} s", file=sys.stderr, flush=True)
        return taken

    defaults: Mapping[str, str] = import_module(f"benchmarks.contestants.{contestant.module}").SETTINGS
    others = {name: [value for value in values if value != defaults[name]] for name, values in contestant.choices.items()}
    return Searched(contestant.title, case.name, *best(others, seconds, runs))


def main(argv: Sequence[str] | None = None) -> int:
    """Search, keep what is found and print it; returns the exit code, 1 if a contestant has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=tuple(CASES), default=tuple(CASES), metavar="WORK", help="only these")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="only those whose title or module begins so")
    parser.add_argument("--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where the input is kept")
    parser.add_argument("--rounds", type=int, choices=(1, 3, 5), default=_RUNS, help="of each setting (default: %(default)s)")
    parser.add_argument("--publish", action="store_true", help="also write the table of all that was found into benchmarks/README.md")
    asked = parser.parse_args(argv)
    data, failed = asked.data.resolve(), False
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="runs-", dir=data) as scratch:
        rounds = Rounds(data, small=False, limit=LIMIT_SECONDS)
        for case in map(CASES.__getitem__, asked.works):
            for contestant in chosen(asked.contestants):
                if contestant.choices and contestant.takes(case, small=False):
                    print(f"{case.name}, {contestant.title}", file=sys.stderr, flush=True)
                    try:
                        keep([search(rounds, case, contestant, Path(scratch), asked.rounds)])
                    except ContestantFailed as failure:
                        failed = True
                        print(f"  {failure}", file=sys.stderr, flush=True)
    print(searched_table(searched().values()))
    if asked.publish:
        publish_all()
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("python -m benchmarks.settings: interrupted; what was found is kept", file=sys.stderr)
        sys.exit(130)
