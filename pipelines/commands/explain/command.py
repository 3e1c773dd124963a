"""``python -m pipelines.explain``: two small changelogs through a join, shown position by position."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, get_args

from beam_joins.errors import InputError
from beam_joins.how import How
from beam_joins.operations import DELETES, UPSERTS
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.commands.command_line import sentence_and_code
from beam_joins.pipelines.commands.program import Parser, program

PROGRAM = program("explain")
MOST_RECORDS: Final = 500
EXAMPLES = f"""\
examples:
  {PROGRAM} stock.jsonl prices.jsonl --how outer
      two tables with the same keys

  {PROGRAM} orders.csv customers.csv --foreign-key customer_id --how left --svg left.svg
      rows with the rows that they refer to, also as a picture

Each record is a change: its key (--key), its position (--sequence-by: a whole number, of one order for both files), and, if it has
one, its operation (--apply-as-deletes: d or delete deletes the row, null is an upsert). All other columns are the row.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    arguments = _parser().parse_args(argv)
    try:
        _explain(arguments)
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = sentence_and_code(error)
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return code
    return 0


def _explain(args: argparse.Namespace) -> None:
    from rich.console import Console

    from beam_joins.pipelines.commands.explain.drawing import draw
    from beam_joins.pipelines.commands.explain.events import events_of
    from beam_joins.pipelines.commands.explain.terminal import show
    from beam_joins.pipelines.formats.reading import kind

    left, right = (_side(name, path, args) for name, path in (("left", args.left), ("right", args.right)))
    if args.foreign_key is not None and not any(args.foreign_key in record for record in left.records):
        raise InputError(f"--foreign-key: {args.left} has no column '{args.foreign_key}': it has {', '.join(left.records[0])}")
    meets_by = args.foreign_key or left.key
    kinds = [
        {kind(record[column]) for record in side.records if record.get(column) is not None}
        for side, column in ((left, meets_by), (right, right.key))
    ]
    if all(kinds) and kinds[0].isdisjoint(kinds[1]):
        held = (
            f"'{column}' of {path} holds {' and '.join(sorted(of))}"
            for column, path, of in zip((meets_by, right.key), (args.left, args.right), kinds, strict=True)
        )
        raise InputError(f"{', '.join(held)}: no row would find another")
    events = events_of(left, right, how=args.how, foreign_key=args.foreign_key)
    title = args.title or f"{args.how} join by {args.foreign_key or 'key'}"
    if args.svg:
        with writing(args.svg), open(args.svg, "w", encoding="utf-8") as file:
            file.write(draw(events, title))
    show(events, title, Console())


def _side(name: str, path: str, args: argparse.Namespace) -> Any:
    from beam_joins.pipelines.changelogs.changelog_files import find_changelog
    from beam_joins.pipelines.commands.explain.events import ExplainedSide
    from beam_joins.pipelines.formats.changelog_columns import Columns

    key = vars(args)[f"{name}_key"] or args.key
    columns = Columns(key=(key,), timestamp=args.sequence_by, sequence=args.sequence_by, side=name)
    changelog = find_changelog(f"{name} rows", path, columns)
    if len(changelog.first) > MOST_RECORDS:
        raise InputError(f"{path} has more than {MOST_RECORDS} records: give a part of it that can be looked at")
    if not changelog.first:
        raise InputError(f"{path} has no record")
    changelog.require_all([(f"--{name}-key", key), ("--sequence-by", args.sequence_by)])
    for record in changelog.first:
        if not isinstance(record.get(args.sequence_by), int):
            raise InputError(f"{path}: --sequence-by: '{args.sequence_by}' is not a whole number in {record}")
    delete = args.apply_as_deletes if any(args.apply_as_deletes in record for record in changelog.first) else None
    records: Sequence[dict[str, Any]] = changelog.first
    if delete is not None:
        records = [{**record, delete: str(record.get(delete) or "upsert").lower()} for record in changelog.first]
        if unknown := {record[delete] for record in records} - DELETES - UPSERTS:
            words = ", ".join(sorted(unknown))
            raise InputError(f"{path}: --apply-as-deletes: '{delete}' has {words}: neither an upsert nor a delete")
    return ExplainedSide(records, key, args.sequence_by, delete)


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="Show what a join makes of two small changelogs, position by position: the changes of both tables "
        "and of the result.",
        epilog=EXAMPLES,
    )
    parser.add_argument("left", metavar="LEFT", help="changelog of the left table: JSON lines, CSV, Parquet, Avro or Arrow")
    parser.add_argument("right", metavar="RIGHT", help="changelog of the right table")
    parser.add_argument("--how", choices=get_args(How), default="inner", help="the rows of the result (default: %(default)s)")
    parser.add_argument(
        "--foreign-key",
        metavar="COLUMN",
        help="the column of the left rows with the key of the right row (default: tables with the same keys)",
    )
    parser.add_argument("--key", default="id", metavar="COLUMN", help="the key of both tables (default: %(default)s)")
    for side in ("left", "right"):
        parser.add_argument(f"--{side}-key", metavar="COLUMN", help=f"the key of the {side} table (default: as --key says)")
    parser.add_argument("--sequence-by", default="position", metavar="COLUMN", help="the order of all changes (default: %(default)s)")
    parser.add_argument(
        "--apply-as-deletes",
        default="op",
        metavar="COLUMN",
        help="the operation, if the files have this column (default: %(default)s)",
    )
    parser.add_argument("--title", metavar="TEXT", help="the title (default: the kind of the join)")
    parser.add_argument("--svg", metavar="FILE", help="also draw the timeline into a file")
    return parser
