"""The command line of the proofs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.process import ContestantFailed
from benchmarks.proofs import amplification, bank


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.proofs", description="Rebuild tests of record, and run them.")
    proofs = made.add_subparsers(dest="proof", required=True, metavar="PROOF")
    transfers = proofs.add_parser("bank", help="bank transfers: is every total of all balances 0?")
    transfers.add_argument("--transactions", type=_count, default=1_000_000, metavar="N", help="transfers (default: %(default)s)")
    transfers.add_argument("--ways", nargs="+", choices=bank.WAYS, default=bank.WAYS, help="how it runs (default: all)")
    transfers.add_argument("--positions", nargs="+", choices=bank.POSITIONS, default=bank.POSITIONS, help="of what (default: both)")
    transfers.add_argument("--partitions", nargs="+", type=_count, default=(1, 2, 7), metavar="N", help="partitions (default: 1 2 7)")
    transfers.add_argument("--picture", type=Path, metavar="FILE", help="draw the totals of Flink SQL into this SVG")
    amplified = proofs.add_parser("amplification", help="one row to which all rows refer is updated: what does it cost?")
    amplified.add_argument("--rows", type=_count, default=1_000_000, metavar="N", help="rows that refer to it (default: %(default)s)")
    amplified.add_argument("--partitions", type=_count, default=4, metavar="N", help="partitions (default: %(default)s)")
    for proof in proofs.choices.values():
        proof.add_argument(
            "--data", type=Path, default=Path("benchmark-data"), metavar="DIR", help="where input is kept (default: %(default)s)"
        )
    return made


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("give a whole number from 1 on")
    return count


def main(argv: Sequence[str] | None = None) -> int:
    """Run a proof, print its table, and return 1 if results of this project are wrong or missing."""
    asked = parser().parse_args(argv)
    directory = asked.data.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if asked.proof == "bank":
        asked_cases = bank.cases(asked.ways, asked.positions, asked.partitions)
        verdicts = bank.prove(asked_cases, asked.transactions, directory, asked.picture)
        print(bank.table(verdicts))
        ours = [each.verdict for each in verdicts if each.case.way != "flink-sql"]
        return int(not all(each is not None and each.consistent for each in ours))
    try:
        runs = amplification.measure(asked.rows, asked.partitions, directory)
    except ContestantFailed as error:
        print(f"python -m benchmarks.proofs: a run {error}", file=sys.stderr)
        return 1
    print(amplification.table(runs))
    return int(not all(each.right for each in runs))


if __name__ == "__main__":
    sys.exit(main())
