"""The command line of ``python -m pipelines.orders``."""

import argparse
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from beam_joins.operations import DELETES, UPSERTS
from beam_joins.pipelines.changelog_files.columns import NANOSECONDS, Columns, Envelopes, enveloped
from beam_joins.pipelines.changelog_files.layout import TYPES, Layout, is_type
from beam_joins.pipelines.command.command_line import parse_known
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.program import program
from beam_joins.pipelines.orders_runs_options import add_runs_options
from beam_joins.pipelines.report.options import add_report_option

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

  {PROGRAM} --orders orders.jsonl --orders-format debezium --customers customers.jsonl --customers-format debezium \\
      --orders-key id --customers-key id --latest now.jsonl
      Debezium's events, as its sinks for files write them

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence= --customers-sequence= --latest now.jsonl
      changelogs without a commit sequence: their times order the changes

  {PROGRAM} --orders o.jsonl --customers c.jsonl --orders-sequence commit_lsn,lsn --customers-sequence commit_lsn,lsn
      transactions that change a row several times: they are seen whole, with the last change of each row

  {PROGRAM} --orders in/orders --customers in/customers --state-dir state --changes out/changes --latest out/latest.jsonl
      every night: only the files that no run has read, with their changes in a file of their own; with --follow all day

  {PROGRAM} --runner=SparkRunner
      on Spark, on all cores of this machine; --spark_master_url=spark://host:7077 for a cluster
"""


KEYS: Final = {"orders": "order_id", "customers": "customer_id"}
_DEFAULTS: Final[dict[str, Any]] = {
    "timestamp": "updated_at",
    "timestamp_unit": "us",
    "sequence": "lsn",
    "delete_column": "op",
    "deletes": None,
    "upserts": None,
}
"""What says of a record what it is, where no option does and no envelope."""


class Arguments(NamedTuple):
    """Our own options, and those that are Beam's."""

    own: argparse.Namespace
    beam: list[str]


def parse(argv: Sequence[str] | None) -> Arguments:
    """Parse the command line; exits with code 2 for an option that neither we nor Beam knows."""
    arguments = Arguments(*parse_known(_parser(), argv))
    own = vars(arguments.own)
    for side in (side for side in KEYS if own[f"{side}_format"] is None):
        for name, default in (("key", KEYS[side]), *_DEFAULTS.items()):
            if own[f"{side}_{name}"] is None:
                own[f"{side}_{name}"] = default
    return arguments


def columns_of(side: str, own: argparse.Namespace) -> Columns:
    """The columns of the orders or of the customers, as the options say."""
    given = {name: vars(own)[f"{side}_{name}"] for name in ("key", *_DEFAULTS)}
    envelope = vars(own)[f"{side}_format"]
    if envelope is not None:
        for name in _DEFAULTS:
            if given[name] is not None:
                option = f"--{side}-{name.replace('_', '-')}"
                raise InputError(f"{option} is not for --{side}-format={envelope}, whose envelopes say that themselves: leave it out")
        return enveloped(side)
    if vars(own)[f"{side}_table"]:
        raise InputError(f"--{side}-table is for files of envelopes: give --{side}-format too, or leave it out")
    for option in ("key", "timestamp"):
        if not given[option]:
            raise InputError(f"--{side}-{option} must name a column")
    columns = [column for name in given["sequence"].split(",") if (column := name.strip())]
    deletes, upserts = _operations(side, given["deletes"], given["upserts"])
    return Columns(
        key=given["key"],
        timestamp=given["timestamp"],
        unit=given["timestamp_unit"],
        sequence=columns[0] if columns else None,
        within=tuple(columns[1:]),
        delete=given["delete_column"] or None,
        deletes=deletes,
        upserts=upserts,
        side=side,
    )


def envelopes_of(side: str, own: argparse.Namespace) -> Envelopes:
    """The envelopes that the rows of the orders or of the customers are in, as the options say."""
    key = vars(own)[f"{side}_key"]
    return Envelopes(vars(own)[f"{side}_format"], vars(own)[f"{side}_table"], (key,) if key else ())


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
    add_report_option(out)
    add_runs_options(parser)
    for side, key in KEYS.items():
        group = parser.add_argument_group(f"columns of the {side}")
        group.add_argument(
            f"--{side}-format",
            choices=("debezium", "wal2json", "maxwell"),
            help="JSON lines in which each row is in an envelope, that says its time, its place in the sequence and whether it is deleted (default: the "
            "columns of the row say that)",
        )
        group.add_argument(
            f"--{side}-table",
            default="",
            metavar="NAME",
            help="the table whose rows count, of envelopes of several (default: all rows)",
        )
        group.add_argument(f"--{side}-key", metavar="COLUMN", help=f"default: {key}; of envelopes that say it the primary key")
        group.add_argument(
            f"--{side}-schema",
            default="",
            metavar="TYPES",
            help=f"types of columns of CSV files, as in id:int64,amount:decimal(12,2): {', '.join(TYPES)} (default: as their first megabyte has them)",
        )
        group.add_argument(
            f"--{side}-sequence",
            metavar="COLUMNS",
            help=f"commit sequence, common to both changelogs: a whole number (default: {_DEFAULTS['sequence']}); empty: the time orders the changes; several, as "
            "in commit_lsn,lsn: the first is the position, the others say which change of a row within it is the last",
        )
        group.add_argument(
            f"--{side}-timestamp",
            metavar="COLUMN",
            help=f"event time: whole number, ISO 8601 text or Avro timestamp (default: {_DEFAULTS['timestamp']})",
        )
        group.add_argument(
            f"--{side}-timestamp-unit",
            choices=tuple(NANOSECONDS),
            help=f"what a whole number counts since 1970 (default: {_DEFAULTS['timestamp_unit']})",
        )
        group.add_argument(
            f"--{side}-delete-column",
            metavar="COLUMN",
            help=f"the operation: says whether a record deletes its row (default: {_DEFAULTS['delete_column']}); empty: none does",
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
