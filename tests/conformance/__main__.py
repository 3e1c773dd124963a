"""Run scenarios through the project's operators and hold the answers against recorded ones.

    python -m tests.conformance SCENARIOS --runner core --out RESULTS
    python -m tests.conformance SCENARIOS --expected EXPECTED --runner DirectRunner

Exit code 0: no difference; 1: some scenario differs; 2: a file cannot be used. Options that the tool does not know go to the runner.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from tests.conformance.compare import compare
from tests.conformance.files import EXPECTED, SCENARIOS, UnreadableFile, read_answers, read_scenarios, write_answers
from tests.conformance.runners import Runner
from tests.conformance.sample import sample


def main(argv: list[str]) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "scenarios",
        metavar="SCENARIOS",
        nargs="?",
        type=Path,
        help="JSON lines, plain or .gz (default: the project's own, with --expected)",
    )
    parser.add_argument("--expected", metavar="EXPECTED", type=Path, help="recorded answers to compare with")
    parser.add_argument("--runner", choices=get_args(Runner), default="core", help="default: core, the pure cores without Beam")
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="only scenarios whose name has this in it")
    parser.add_argument("--sample", metavar="N", type=int, help="only N scenarios, some of every op and kind")
    parser.add_argument("--out", metavar="RESULTS", type=Path, help="write our answers to this file, in the recorded format")
    arguments, runner_options = parser.parse_known_args(argv)
    own = arguments.scenarios is None
    expected = arguments.expected or (EXPECTED if own else None)
    try:
        scenarios = read_scenarios(SCENARIOS if own else arguments.scenarios)
        recorded = read_answers(expected) if expected else {}
    except UnreadableFile as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    scenarios = [scenario for scenario in scenarios if arguments.only in scenario.name]
    if arguments.sample is not None:
        scenarios = sample(scenarios, arguments.sample)
    if not scenarios:
        print("error: no scenario is left to run: check --only and --sample", file=sys.stderr)
        return 2
    started = time.monotonic()
    ours, report = compare(scenarios, recorded, arguments.runner, runner_options)
    seconds = time.monotonic() - started
    if arguments.out:
        write_answers(arguments.out, ours)
    if expected:
        print("\n".join(report.lines()))
    print(f"{len(ours)} of {len(scenarios)} scenarios run on {arguments.runner} in {seconds:.1f} s")
    return 1 if expected and report.differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
