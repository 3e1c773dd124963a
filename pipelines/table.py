"""``beam-joins table``: a changelog in, its table out: every change with its old row, and the rows that there
are in the end.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Final

from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.computed_columns import ComputedColumns, add_where
from beam_joins.pipelines.commands.program import program
from beam_joins.pipelines.commands.result_groups import GROUP_OPTIONS, add_group_options
from beam_joins.pipelines.commands.run_command import run_command

PROGRAM: Final = program("table")
ROWS: Final = Side("rows", "", "id")
EXAMPLES: Final = f"""\
examples:
  {PROGRAM} --input 'prices-*.jsonl.gz' --key sku --latest now.jsonl
      the final rows

  {PROGRAM} --input prices.csv --key sku --sequence-by= --apply-as-deletes= --select 'sku, price as euros' --output changes.jsonl
      each change with the row before it, of a changelog without a sequence and without deletes

  {PROGRAM} --input events.jsonl --format debezium --table public.prices --key sku --latest now.jsonl
      one table of Debezium's events
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    return run_command(TABLE, argv)


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("table")
    what.add_argument(
        "--select",
        default="*",
        metavar="COLUMNS",
        help="the columns of the result: id, name as customer, * for all columns (default: %(default)s)",
    )
    add_where(what)
    add_group_options(parser)


TABLE: Final = CommandSpec(
    command="table",
    sides=(ROWS,),
    about="The table of a changelog: its changes with old and new rows, and its final rows.",
    examples=EXAMPLES,
    add_options=_add_options,
    select=lambda args: args.select,
    computed=lambda args: ComputedColumns.of(args, args.select, ("",)),
    fixed=("select", "where", *GROUP_OPTIONS),
)

if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
