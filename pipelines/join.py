"""``beam-joins join``: two changelogs in, the changelog of their join and its final rows out."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Final, get_args

from beam_joins.options.join_types import How
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.computed_columns import ComputedColumns, add_where
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.result_groups import GROUP_OPTIONS, add_group_options
from beam_joins.pipelines.commands.run_command import run_command

PROGRAM: Final = program("join")
EXAMPLES: Final = f"""\
examples:
  {PROGRAM} --left stock.csv --right prices.jsonl --left-key sku --right-key sku --how outer --latest now.jsonl
      rows of one key

  {PROGRAM} --left 'flights-*.parquet' --right planes.parquet --foreign-key tail_number --right-key tail_number \
--select 'left.*, right.model as plane' --output changes.jsonl
      each flight with its plane, whenever one of them changes

  {PROGRAM} --options nightly.toml --how left
      options from a file, where left-key = "sku" is --left-key sku; those of the command line win

  {PROGRAM} --options nightly.toml --dry-run
      the files that a run would read and write
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    return run_command(JOIN, argv)


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("join")
    what.add_argument(
        "--how",
        choices=get_args(How),
        default="inner",
        help="left, right and outer keep the rows of that side, or of both, that have no match; semi and anti give the left rows "
        "with and without a match (default: %(default)s)",
    )
    what.add_argument(
        "--foreign-key",
        metavar="COLUMNS",
        type=lambda names: names or None,
        help="the columns of the left rows that hold the key of a right row, as in by or region,by (default: rows with equal keys are "
        "joined)",
    )
    what.add_argument(
        "--select",
        default="",
        metavar="COLUMNS",
        help="the columns of the result: left.id, right.name as customer, left.* or right.* for all columns of a side, right as "
        "customer for the row as an object (default: all columns; left_ or right_ precedes a name that both sides have)",
    )
    add_where(what)
    add_group_options(parser)


def _select(args: argparse.Namespace) -> str:
    return args.select or ("left.*" if args.how in ("semi", "anti") else "left.*, right.*")


JOIN: Final = CommandSpec(
    command="join",
    sides=(Side("left rows", "left", "id"), Side("right rows", "right", "id")),
    about="Join two changelogs, by their keys or by a foreign key of the left rows: the changelog of the joined table "
    "and its final rows.",
    examples=EXAMPLES,
    add_options=_add_options,
    select=_select,
    computed=lambda args: ComputedColumns.of(args, _select(args), ("left", "right")),
    fixed=("foreign_key", "how", "select", "where", *GROUP_OPTIONS),
)

if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
