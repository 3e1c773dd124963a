"""The command line of ``python -m pipelines.orders``."""

import argparse
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from beam_joins.operations import DELETES, UPSERTS
from beam_joins.pipelines.changelog_files.columns import NANOSECONDS, Columns
from beam_joins.pipelines.changelog_files.layout import TYPES, Layout, is_type
from beam_joins.pipelines.command.command_line import parse_known
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.program import program
from beam_joins.pipelines.orders_runs_options import add_runs_options

PROGRAM = program("orders")
EXAMPLES = f"""\
examples:
  {PROGRAM}
      the sample: made in sample-data/ on first use, enriched into orders-out/

  {PROGRAM} --orders 'dump/orders-*.jsonl.gz' --customers dump/customers.jsonl --output enriched.jsonl
      your own files, JSON lines

  {PROGRAM} --orders o.avro --customers c.avro --orders-key id --orders-timestamp ts_ms --orders-timestamp-unit ms \\
      --how left --min-amount 100 --output enriched.avro --latest now.avro
      Avro, other column names, only orders of 100 or more, with or without a customer

  {PROGRAM} --orders o.csv --customers c.parquet --orders-schema 'order_id:int64,amount:decimal(12,2)' --latest now.jsonl
      CSV with types for two of its columns, and Parquet

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence= --customers-sequence= --latest now.jsonl
      changelogs without a commit sequence: their times order the changes

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence commit_lsn,lsn --customers-sequence commit_lsn,lsn
      transactions that change a row several times: they are seen whole, with the last change of each row

  {PROGRAM} --orders in/orders --customers in/customers --state-dir state --changes out/changes --latest out/latest.jsonl
      every night: only the files that no run has read, with their changes in a file of their own; with --follow all day

  {PROGRAM} --runner=SparkRunner
      on Spark, on all cores of this machine; --spark_master_url=spark://host:7077 for a cluster
"""


class Arguments(NamedTuple):
    """Our own options, and those that are Beam's."""

    own: argparse.Namespace
    beam: list[str]


def parse(argv: Sequence[str] | None) -> Arguments:
    """Parse the command line; exits with code 2 for an option that neither we nor Beam knows."""
    return Arguments(*parse_known(_parser(), argv))


def columns_of(side: str, own: argparse.Namespace) -> Columns:
    """The columns of the orders or of the customers, as the options say."""
    get = vars(own).__getitem__
    for option in ("key", "timestamp"):
        if not get(f"{side}_{option}"):
            raise InputError(f"--{side}-{option} must name a column")
    columns = [column for name in get(f"{side}_sequence").split(",") if (column := name.strip())]
    deletes, upserts = _operations(side, get(f"{side}_deletes"), get(f"{side}_upserts"))
    return Columns(
        key=get(f"{side}_key"),
        timestamp=get(f"{side}_timestamp"),
        unit=get(f"{side}_timestamp_unit"),
        sequence=columns[0] if columns else None,
        within=tuple(columns[1:]),
        delete=get(f"{side}_delete_column") or None,
        deletes=deletes,
        upserts=upserts,
        side=side,
    )


def layout_given(side: str, own: argparse.Namespace) -> Layout:
    """The types of columns of CSV files that the options give."""
    given = []
    for each in filter(None, map(str.strip, re.split(r",(?![^()]*\))", vars(own)[f"{side}_schema"]))):
        name, _, kind = each.rpartition(":")
        if not name or not is_type(kind):
            raise InputError(f"--{side}-schema: {each} is not of the form COLUMN:TYPE with one of the types {', '.join(TYPES)}")
        given.append((name, kind))
    return tuple(given)


def _operations(side: str, deletes: str | None, upserts: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """The words for deletes and for upserts; one that is given for one of them is none of the defaults of the other."""
    deleting, upserting = _words(deletes), _words(upserts)
    if both := sorted((deleting or frozenset()) & (upserting or frozenset())):
        raise InputError(f"{', '.join(both)} stands in both --{side}-deletes and --{side}-upserts: a record is one or the other")
    return (
        DELETES - (upserting or frozenset()) if deleting is None else deleting,
        UPSERTS - (deleting or frozenset()) if upserting is None else upserting,
    )


def _words(listed: str | None) -> frozenset[str] | None:
    return None if listed is None else frozenset(filter(None, (word.strip().lower() for word in listed.split(","))))


def _finite(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not number.is_finite():
        raise argparse.ArgumentTypeError(f"{text} is no amount that others can be compared with: give a finite number")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Enrich orders with their customers: two changelogs in, the changelog of the joined table (and its final rows) out. "
        "Without options it runs on sample data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    files = parser.add_argument_group(
        "inputs",
        "Paths or globs. The suffix says the format: .avro, .parquet, .csv with a header, or .jsonl, .json, .ndjson with one JSON object a line (CSV and "
        "JSON lines also with .gz, .bz2 or .zst). An input may have files of several formats.",
    )
    files.add_argument("--orders", metavar="PATH", help="changelog of orders (default: the sample)")
    files.add_argument("--customers", metavar="PATH", help="changelog of customers (default: the sample)")
    files.add_argument(
        "--on-bad-record",
        choices=("fail", "drop"),
        default="fail",
        help="what to do with a line that is not JSON or a record without a usable key, time, sequence or operation (default: %(default)s); "
        "dropped ones are counted and the first few named",
    )

    what = parser.add_argument_group("join")
    what.add_argument(
        "--how", choices=("inner", "left"), default="inner", help="left keeps orders without a customer (default: %(default)s)"
    )
    what.add_argument(
        "--foreign-key",
        default="customer_id",
        metavar="COLUMN",
        help="column of the orders with the customer's key (default: %(default)s)",
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

    out = parser.add_argument_group(
        "results",
        "The suffix says the format, as for inputs; Avro results need Avro inputs. Existing files are replaced when the run has succeeded.",
    )
    out.add_argument(
        "--output",
        metavar="PATH",
        help="changelog of enriched orders: key, op, old, new, timestamp, position (default: orders-out/enriched.jsonl if --latest is not given either)",
    )
    out.add_argument(
        "--latest",
        metavar="PATH",
        help="the enriched orders there are in the end (default: orders-out/latest.jsonl if --output is not given either)",
    )
    out.add_argument(
        "--parts",
        action="store_true",
        help="leave each result in the parts in which it was written, PATH-00000-of-00016, instead of joining them",
    )
    add_runs_options(parser)
    for side, key in (("orders", "order_id"), ("customers", "customer_id")):
        group = parser.add_argument_group(f"columns of the {side}")
        group.add_argument(f"--{side}-key", default=key, metavar="COLUMN", help="default: %(default)s")
        group.add_argument(
            f"--{side}-schema",
            default="",
            metavar="TYPES",
            help=f"types of columns of CSV files, as in id:int64,amount:decimal(12,2): {', '.join(TYPES)} (default: as their first megabyte has them)",
        )
        group.add_argument(
            f"--{side}-sequence",
            default="lsn",
            metavar="COLUMNS",
            help="commit sequence, common to both changelogs: a whole number (default: %(default)s); empty: the time orders the changes; several, as "
            "in commit_lsn,lsn: the first is the position, the others say which change of a row within it is the last",
        )
        group.add_argument(
            f"--{side}-timestamp",
            default="updated_at",
            metavar="COLUMN",
            help="event time: whole number, ISO 8601 text or Avro timestamp (default: %(default)s)",
        )
        group.add_argument(
            f"--{side}-timestamp-unit",
            choices=tuple(NANOSECONDS),
            default="us",
            help="what a whole number counts since 1970 (default: %(default)s)",
        )
        group.add_argument(
            f"--{side}-delete-column",
            default="op",
            metavar="COLUMN",
            help="the operation: says whether a record deletes its row (default: %(default)s); empty: none does",
        )
        for option, meaning, words in (("deletes", "a delete", DELETES), ("upserts", "an insert or an update", UPSERTS)):
            group.add_argument(
                f"--{side}-{option}",
                metavar="VALUES",
                help=f"the values of that column that mean {meaning}, in any case; null stands for null (default: {','.join(sorted(words))}). "
                "A record with a value in neither list is a bad record",
            )
    beam = parser.add_argument_group("runner", "All options of Beam's are passed on; without any, the job runs in this process.")
    beam.add_argument("--runner", metavar="NAME", help="DirectRunner (default), SparkRunner, or another of Beam's")
    return parser
