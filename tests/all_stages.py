"""Runs every test, a stage for each kind of server, and goes on behind a stage that is red.

    python -m tests.all_stages [STAGE ...]

`make test-all` is all stages. A stage's messages are in ``build/test-all/STAGE.log``. Examples are drawn anew each time;
the seed is in the command of the stage, which is printed and repeats it.
"""

import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests import prepare
from tests.needs import NEEDS

LOGS = Path("build/test-all")
_ORDER = tuple(reversed(NEEDS))
"""A test that needs several things is in the first of these stages."""
_SIDE_BY_SIDE = {"quick": ("-n", "2", "--dist", "worksteal"), "sweep": ("-n", "2", "--dist", "loadfile")}
"""Stages whose tests start nothing; what starts servers runs serially."""


class Result(NamedTuple):
    """How a stage ended."""

    stage: str
    tests: int
    skipped: int
    red: Sequence[str]
    seconds: float
    code: int


def stages() -> Iterator[tuple[str, str]]:
    """The name of each stage and the markers of its tests.

    >>> dict(stages())["faults"]
    'faults and not (versions)'
    """
    yield "quick", "quick"
    yield "sweep", f"sweep and not ({' or '.join(NEEDS)})"
    for number, name in reversed(list(enumerate(_ORDER))):
        yield name, f"{name} and not ({' or '.join(_ORDER[:number])})" if number else name


def run(stage: str, markers: str, seed: int) -> Result:
    LOGS.mkdir(parents=True, exist_ok=True)
    xml, log = LOGS / f"{stage}.xml", LOGS / f"{stage}.log"
    xml.unlink(missing_ok=True)
    examples = ("--hypothesis-profile=random", f"--hypothesis-seed={seed}")
    command = [sys.executable, "-m", "pytest", *_SIDE_BY_SIDE.get(stage, ()), *examples, "-m", markers, "-rs", f"--junitxml={xml}"]
    print(f"{stage}: {shlex.join(command)}", flush=True)
    begin = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False)
    cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    red = [f"{case.get('classname')}::{case.get('name')}" for case in cases if {"failure", "error"} & {each.tag for each in case}]
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Result(stage, len(cases), skipped, red, time.monotonic() - begin, done.returncode)


def main(names: Sequence[str]) -> int:
    everything = dict(stages())
    if unknown := [name for name in names if name not in everything]:
        print(f"no such stage: {', '.join(unknown)}; there are {', '.join(everything)}", file=sys.stderr)
        return 2
    seed, results = random.randrange(10**6), list[Result]()
    prepare.main()
    for name in names or everything:
        results.append(run(name, everything[name], seed))
        print(f"{len(results[-1].red)} red of {results[-1].tests}, {results[-1].seconds / 60:.1f} min", flush=True)
    print(f"\n{'stage':<10}{'tests':>7}{'skipped':>9}{'red':>5}{'minutes':>9}")
    for each in results:
        ended = "" if each.red or each.code in (0, 5) else f"  ended with {each.code}"  # 5: it has no test here
        print(f"{each.stage:<10}{each.tests:>7}{each.skipped:>9}{len(each.red):>5}{each.seconds / 60:>9.1f}{ended}")
    for each in results:
        print(*(f"{LOGS / each.stage}.log: {test}" for test in each.red), sep="\n", end="\n" if each.red else "")
    return int(any(each.code not in (0, 5) for each in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
