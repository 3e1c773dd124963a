"""``python -m pipelines.explain``: two small changelogs through a join, shown position by position."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

from beam_joins.operations import DELETES, UPSERTS
from beam_joins.pipelines.command.command_line import said
from beam_joins.pipelines.command.input_error import InputError, writing
from beam_joins.pipelines.command.program import program

PROGRAM = program("explain")
HOW: Final = ("inner", "left", "right", "outer", "semi", "anti")
MOST_RECORDS: Final = 500
EXAMPLES = f"""\
examples:
  {PROGRAM} stock.jsonl prices.jsonl --how outer
      two tables with the same keys

  {PROGRAM} orders.csv customers.csv --foreign-key customer_id --how left --svg left.svg
      rows with the rows that they refer to, also as a picture

Each record is a change: its key (--key), its position (--position: a whole number, of one order for both files), and, if there is one, its
operation (--delete-column: d or delete deletes the row, none is an upsert). All other columns are the row.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 if what the user gave cannot be used, 1 if the run failed for another reason."""
    arguments = _parser().parse_args(argv)
    try:
        _explain(arguments)
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = said(error)
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return code
    return 0


def _explain(given: argparse.Namespace) -> None:
    from rich.console import Console

    from beam_joins.pipelines.changelog_files.reading import kind
    from beam_joins.pipelines.timeline.drawing import draw
    from beam_joins.pipelines.timeline.events import events_of
    from beam_joins.pipelines.timeline.terminal import show

    left, right = (_side(name, path, given) for name, path in (("left", given.left), ("right", given.right)))
    if given.foreign_key is not None and not any(given.foreign_key in record for record in left.records):
        raise InputError(f"--foreign-key: {given.left} has no column '{given.foreign_key}': it has {', '.join(left.records[0])}")
    meets_by = given.foreign_key or left.key
    kinds = [
        {kind(record[column]) for record in side.records if record.get(column) is not None}
        for side, column in ((left, meets_by), (right, right.key))
    ]
    if all(kinds) and kinds[0].isdisjoint(kinds[1]):
        held = (
            f"'{column}' of {path} holds {' and '.join(sorted(of))}"
            for column, path, of in zip((meets_by, right.key), (given.left, given.right), kinds, strict=True)
        )
        raise InputError(f"{', '.join(held)}: no row would find another")
    events = events_of(left, right, how=given.how, foreign_key=given.foreign_key)
    title = given.title or f"{given.how} join by {given.foreign_key or 'key'}"
    if given.svg:
        with writing(given.svg), open(given.svg, "w", encoding="utf-8") as file:
            file.write(draw(events, title))
    show(events, title, Console())


def _side(name: str, path: str, given: argparse.Namespace) -> Any:
    from beam_joins.pipelines.changelog_files.changelog import find_changelog
    from beam_joins.pipelines.changelog_files.columns import Columns
    from beam_joins.pipelines.timeline.events import Side

    key = vars(given)[f"{name}_key"] or given.key
    found = find_changelog(name, path, Columns(key=key, timestamp=given.position, sequence=given.position, side=name))
    if len(found.first) > MOST_RECORDS:
        raise InputError(f"{path} has more than {MOST_RECORDS} records: give a part of it that can be looked at")
    if not found.first:
        raise InputError(f"{path} has no record")
    for option, column in (("key", key), ("position", given.position)):
        found.require(f"--{option}", column)
    for record in found.first:
        if not isinstance(record.get(given.position), int):
            raise InputError(f"{path}: --position: '{given.position}' is not a whole number in {record}")
    delete = given.delete_column if any(given.delete_column in record for record in found.first) else None
    records: Sequence[dict[str, Any]] = found.first
    if delete is not None:
        records = [{**record, delete: str(record.get(delete) or "upsert").lower()} for record in found.first]
        if unknown := {record[delete] for record in records} - DELETES - UPSERTS:
            raise InputError(f"{path}: --delete-column: '{delete}' has {', '.join(sorted(unknown))}: neither an upsert nor a delete")
    return Side(records, key, given.position, delete)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Show what a join makes of two small changelogs, position by position: the changes of both tables and of the result.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("left", metavar="LEFT", help="changelog of the left table: JSON lines, CSV, Parquet or Avro")
    parser.add_argument("right", metavar="RIGHT", help="changelog of the right table")
    parser.add_argument("--how", choices=HOW, default="inner", help="which rows the result has (default: %(default)s)")
    parser.add_argument(
        "--foreign-key",
        metavar="COLUMN",
        help="the column of the left rows with the key of the right row (default: tables with the same keys)",
    )
    parser.add_argument("--key", default="id", metavar="COLUMN", help="the key of both tables (default: %(default)s)")
    for side in ("left", "right"):
        parser.add_argument(f"--{side}-key", metavar="COLUMN", help=f"the key of the {side} table, where it is called otherwise")
    parser.add_argument("--position", default="position", metavar="COLUMN", help="the order of all changes (default: %(default)s)")
    parser.add_argument(
        "--delete-column", default="op", metavar="COLUMN", help="the operation, if there is such a column (default: %(default)s)"
    )
    parser.add_argument("--title", metavar="TEXT", help="what stands above (default: the kind of the join)")
    parser.add_argument("--svg", metavar="FILE", help="draw the timeline into a file, too")
    return parser


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
