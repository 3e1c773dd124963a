"""``python -m pipelines.orders``: two changelogs, orders and customers, to the orders enriched with their
customers.

It is ``beam-joins join`` with names and defaults of its own, and with a sample to try it on.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from beam_joins.errors import InputError
from beam_joins.options.join_types import LookupHow
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.run_command import run_command
from beam_joins.pipelines.formats.csv_schema import quoted

if TYPE_CHECKING:
    from beam_joins.pipelines.commands.at_least import AtLeast

PROGRAM: Final = program("orders")
SAMPLE_DIRECTORY: Final = "sample-data"
OUTPUT_DIRECTORY: Final = "orders-out"

EXAMPLES = f"""\
examples:
  {PROGRAM}
      the sample: made in sample-data/ on first use, enriched into orders-out/

  {PROGRAM} --orders 'dump/orders-*.jsonl.gz' --customers dump/customers.jsonl --output enriched.jsonl
      your own files, JSON lines

  {PROGRAM} --orders o.avro --customers c.avro --orders-key id --orders-timestamp-by ts_ms --orders-timestamp-unit ms \
--how left --min-amount 100 --output enriched.avro --latest now.avro
      Avro, other column names, only orders of 100 or more, with or without a customer

  {PROGRAM} --orders o.csv --customers c.parquet --orders-schema-overrides 'order_id:int64,amount:decimal(12,2)' --latest now.jsonl
      CSV with types for two of its columns, and Parquet

  {PROGRAM} --orders orders.jsonl --orders-format debezium --customers customers.jsonl --customers-format debezium \
--orders-key id --customers-key id --latest now.jsonl
      Debezium's events, as its sinks for files write them

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence-by= --customers-sequence-by= --latest now.jsonl
      changelogs without a commit sequence: their times order the changes

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence-by commit_lsn,lsn --customers-sequence-by commit_lsn,lsn
      transactions that change a row several times: they are seen whole, with the last change of each row

  {PROGRAM} --orders in/orders --customers in/customers --state-dir state --changes out/changes --latest out/latest.jsonl
      incremental runs: each reads the new files, and writes their changes into a file; with --follow until it is stopped

  {PROGRAM} --runner=SparkRunner
      on Spark, on all cores of this machine; --spark_master_url=spark://host:7077 for a cluster
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    return run_command(ORDERS, argv)


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("join")
    what.add_argument(
        "--how", choices=get_args(LookupHow), default="inner", help="left keeps orders without a customer (default: %(default)s)"
    )
    what.add_argument(
        "--foreign-key",
        default="customer_id",
        metavar="COLUMNS",
        help="columns of the orders with the customer's key (default: %(default)s)",
    )
    what.add_argument("--min-amount", type=_finite, metavar="N", help="only orders of at least this amount (default: all)")
    what.add_argument(
        "--amount", default="amount", metavar="COLUMN", help="column of the orders that --min-amount compares (default: %(default)s)"
    )
    what.add_argument(
        "--customer-field",
        default="customer",
        metavar="NAME",
        help="where the customer goes in an enriched order (default: %(default)s)",
    )


def _finite(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not number.is_finite():
        raise argparse.ArgumentTypeError(f"{text} is no amount that others can be compared with: give a finite number")
    return number


def _minimal_amount(args: argparse.Namespace) -> "AtLeast | None":
    from beam_joins.pipelines.commands.at_least import AtLeast

    return None if args.min_amount is None else AtLeast(args.amount, args.min_amount, "--amount")


def _prepare(args: argparse.Namespace) -> None:
    """The sample, where no inputs are given, and names for the results."""
    if (args.orders is None) != (args.customers is None):
        raise InputError("give both --orders and --customers, or neither for the sample")
    if not args.output and not args.latest and not args.changes and not args.to:
        args.output = os.path.join(OUTPUT_DIRECTORY, "enriched.jsonl")
        args.latest = os.path.join(OUTPUT_DIRECTORY, "latest.jsonl")
    if args.orders is None:
        from beam_joins.pipelines.commands.sample.sample_files import sample_on_first_use

        if args.dry_run and not os.path.isdir(SAMPLE_DIRECTORY):
            raise InputError("--dry-run makes no sample: give --orders and --customers, or run once without it")
        try:
            args.orders, args.customers = map(str, sample_on_first_use(Path(SAMPLE_DIRECTORY)))
        except OSError as error:
            raise InputError(f"cannot write the sample into {SAMPLE_DIRECTORY}: {error.strerror}") from error


ORDERS: Final = CommandSpec(
    command="orders",
    sides=(Side("orders", "orders", "order_id"), Side("customers", "customers", "customer_id")),
    about="Enrich orders with their customers: two changelogs in, the changelog of the joined table (and its final rows) out. "
    "Without options it runs on sample data.",
    examples=EXAMPLES,
    add_options=_add_options,
    select=lambda args: f"orders.*, customers as {quoted(args.customer_field)}",
    fixed=("foreign_key", "how", "amount", "min_amount", "customer_field"),
    keeps=_minimal_amount,
    prepare=_prepare,
    without_path=" (default: the sample)",
    without_results=(
        " (default: orders-out/enriched.jsonl if --latest is not given either)",
        " (default: orders-out/latest.jsonl if --output is not given either)",
    ),
    match="a customer",
    no_match="no order would find its customer",
    unreferring="orders that refer to no customer",
    rename="give the customer another name with --customer-field",
    results=("changes of the joined table", "rows in the final table"),
    shown_rows=3,
    records=("EnrichedOrder", "Customer"),
)

if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said below, in one sentence
    sys.exit(main())
