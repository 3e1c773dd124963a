"""Run scenarios through the project's operators and hold the answers against recorded ones.

    python -m tests.conformance SCENARIOS --runner core --out RESULTS
    python -m tests.conformance SCENARIOS --expected EXPECTED --runner DirectRunner
    python -m tests.conformance --mutate

Exit code 0: no difference; 1: some scenario differs, or a mistake made on purpose is not noticed; 2: a file
cannot be used. Options that the tool does not know go to the runner.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from tests.conformance.compare import compare
from tests.conformance.files import EXPECTED, SCENARIOS, UnreadableFile, read_answers, read_scenarios, write_answers
from tests.conformance.mutation_report import mutation_report
from tests.conformance.registry import OPERATORS
from tests.conformance.runners import Runner
from tests.conformance.sample import sample
from tests.conformance.values import Values


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
    parser.add_argument(
        "--runner",
        choices=get_args(Runner),
        default="core",
        help="default: core, the kernels without Beam; reference: the cores in plain Python",
    )
    parser.add_argument(
        "--values",
        choices=get_args(Values),
        default="typed",
        help="of tables and streams: typed columns (default), or Python objects",
    )
    parser.add_argument(
        "--runs", metavar="N", type=int, default=1, help="core: cut each history into N runs, each from the state of the one before"
    )
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="only scenarios whose name has this in it")
    parser.add_argument("--sample", metavar="N", type=int, help="only N scenarios, some of every op and kind")
    parser.add_argument("--out", metavar="RESULTS", type=Path, help="write our answers to this file, in the recorded format")
    parser.add_argument(
        "--mutate",
        metavar="SEED",
        nargs="?",
        const=0,
        type=int,
        help="make mistakes in our answers and count which are noticed (default seed: 0)",
    )
    arguments, runner_options = parser.parse_known_args(argv)
    recorded_ones = arguments.scenarios is None
    expected = arguments.expected or (EXPECTED if recorded_ones else None)
    if arguments.mutate is not None and not expected:
        parser.error("--mutate needs --expected: without recorded answers nothing is judged")
    try:
        scenarios = read_scenarios(SCENARIOS if recorded_ones else arguments.scenarios)
        recorded = read_answers(expected) if expected else {}
    except UnreadableFile as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    scenarios = [scenario for scenario in scenarios if arguments.only in scenario.name]
    if arguments.sample is not None:
        scenarios = sample([scenario for scenario in scenarios if scenario.op in OPERATORS], arguments.sample)
    if not scenarios:
        print("error: no scenario is left to run: check --only and --sample", file=sys.stderr)
        return 2
    started = time.monotonic()
    ours, report = compare(scenarios, recorded, arguments.runner, runner_options, arguments.values, arguments.runs)
    seconds = time.monotonic() - started
    if arguments.out:
        write_answers(arguments.out, ours)
    if expected:
        print("\n".join(report.lines()))
    print(f"{len(ours)} of {len(scenarios)} scenarios run on {arguments.runner} in {seconds:.1f} s")
    unnoticed = []
    if arguments.mutate is not None:
        mutated = mutation_report(
            [scenario for scenario in scenarios if scenario.op in OPERATORS],
            recorded,
            ours,
            arguments.mutate,
        )
        print("\n".join(mutated.lines()))
        unnoticed = mutated.unnoticed
    return 1 if unnoticed or (expected and report.differing) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
