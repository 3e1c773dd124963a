"""``python -m pipelines.explain``: two small changelogs through a join, shown position by position."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, get_args

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.options.join_types import How
from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.commands.command_line import add_options_file, parse_known, sentence_and_code
from beam_joins.pipelines.commands.command_options import parser_of
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.commands.reader_options import (
    READER_OPTIONS,
    ROW_OPTIONS,
    add_reader_options,
    columns_of,
    csv_of,
    names_in,
    take_defaults,
)
from beam_joins.pipelines.systems.inputs import is_address

if TYPE_CHECKING:
    from beam_joins.pipelines.changelogs.inspected_changelog import Changelog

PROGRAM = program("explain")
MOST_RECORDS: Final = 500
POSITION: Final = "position"
"""The sequence by default of files that have this column."""
EXAMPLES = f"""\
examples:
  {PROGRAM} stock.jsonl prices.jsonl --key sku --how outer
      two tables with the same keys

  {PROGRAM} orders.csv customers.csv --foreign-key customer_id --how left --svg left.svg
      rows with the rows that they refer to, also as a picture

  {PROGRAM} --options join.toml
      the join that {program("join")} makes with these options

  {PROGRAM} shop.sql
      the views of {program("run")}: the key, the transform and the state of each relation
"""
BOTH: Final = Side("rows", "", "id")


def _select(args: argparse.Namespace) -> str:
    return args.select or ("left as left" if args.how in ("semi", "anti") else "left as left, right as right")


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a join that the result depends on, without defaults."""
    parser.add_argument("--how", choices=get_args(How), help="the rows of the result (default: inner)")
    parser.add_argument(
        "--foreign-key",
        metavar="COLUMNS",
        help="the columns of the left rows with the key of the right row (default: rows with equal keys are joined)",
    )
    parser.add_argument("--select", metavar="COLUMNS", help="the columns of the result, as of join (default: both rows without keys)")


EXPLAIN: Final = CommandSpec(
    command="explain",
    sides=(Side("left rows", "left", "id"), Side("right rows", "right", "id")),
    about="Show what a join makes of two small changelogs, position by position: the changes of both tables and of the result.",
    examples=EXAMPLES,
    add_options=_add_options,
    select=_select,
    fixed=(),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid option or input, 1 if the run
    failed for another reason.
    """
    arguments = _parser().parse_args(argv)
    try:
        _take_files(arguments)
        _explain(arguments)
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = sentence_and_code(error)
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return code
    return 0


def _take_files(args: argparse.Namespace) -> None:
    """Take options of files with those of join, where the command line does not give them; those of results, of the state and of
    the runner say nothing of the join. Raises InputError.
    """
    for path in reversed(args.options):
        of_file, _ = parse_known(parser_of(EXPLAIN), ["--options", path])
        for side in EXPLAIN.sides:
            for name in READER_OPTIONS:
                value = side.value_of(of_file, name)
                if value is None or (name == "schema_overrides" and not value):
                    continue
                if name not in ROW_OPTIONS:
                    raise InputError(f"--options: {path} has {side.flag(name)}, which explain does not read: {_rows_of_events()}")
                if side.value_of(args, name) is None and BOTH.value_of(args, name) is None:
                    side.set(args, name, value)
        for name in ("left", "right", "how", "foreign_key", "select"):
            if vars(args)[name] is None:
                setattr(args, name, vars(of_file)[name])
    args.how = args.how or "inner"
    for side in EXPLAIN.sides:
        path = side.path(args)
        if path is None:
            raise InputError(f"name the changelog of the {side.name}, or a file with --{side.option} in --options")
        if is_address(path):
            raise InputError(f"{side.name}: {path} is no file: {_rows_of_events()}")


def _rows_of_events() -> str:
    return f"{program('table')} --output rows.jsonl --output-records upserts makes rows of them"


def _explain(args: argparse.Namespace) -> None:
    with needs("explain"):
        from beam_joins.pipelines.commands.explain.terminal import show
    from beam_joins.pipelines.base.paths import is_local
    from beam_joins.pipelines.commands.absent_defaults import without_absent_defaults
    from beam_joins.pipelines.commands.explain.drawing import draw
    from beam_joins.pipelines.commands.explain.events import ExplainedSide, events_of, position_texts
    from beam_joins.pipelines.commands.job import Job
    from beam_joins.pipelines.commands.job_checks import check

    foreign_key = names_in(args.foreign_key or "")
    by_default = _take_defaults(args)
    looked_at, remarks = without_absent_defaults(EXPLAIN.sides, by_default, [_changelog(side, args) for side in EXPLAIN.sides])
    job = Job(
        spec=EXPLAIN,
        changelogs=looked_at,
        select=EXPLAIN.select(args),
        how=args.how,
        foreign_key=foreign_key,
        on_bad_record="fail",
    )
    check(job)
    for changelog in looked_at:
        if fault := next(filter(None, map(changelog.columns.fault, changelog.first)), None):
            raise InputError(f"{changelog.name}: {changelog.files[0].shown}: {fault}")
    left, right = (ExplainedSide(changelog.first, changelog.columns, keeps_all=bool(args.select)) for changelog in looked_at)
    events = events_of(left, right, how=args.how, foreign_key=foreign_key, shares=job.shares if args.select else None)
    title = args.title or f"{args.how} join by {args.foreign_key or 'key'}"
    texts = position_texts(events, are_times=all(each.columns.sequence is None for each in looked_at))
    if args.svg:
        from beam_joins.transforms.connect.files import create_file

        with writing(args.svg), open(args.svg, "wb") if is_local(args.svg) else create_file(args.svg) as file:
            file.write(draw(events, title, texts).encode())
    show(events, title, texts, remarks)


def _take_defaults(args: argparse.Namespace) -> set[str]:
    """Give both inputs the options without a side, then the defaults of options that nobody gave; returns the names of these.

    The defaults are those of ``join``, but rows are ordered by ``position`` where both inputs have it, and a missing or null
    operation is an upsert.
    """
    for name in ROW_OPTIONS:
        for side in EXPLAIN.sides:
            if side.value_of(args, name) is None:
                side.set(args, name, BOTH.value_of(args, name))
    from beam_joins.pipelines.formats.envelopes.readers import SHOWN_BY

    looked_at = [_changelog(side, args, looks=True) for side in EXPLAIN.sides]
    has = [set(changelog.rows_have) for changelog in looked_at]
    of_both = next((name for name in (POSITION, "lsn") if all(name in names for names in has)), None)
    are_ordered = any(side.value_of(args, name) is not None for side in EXPLAIN.sides for name in ("sequence_by", "timestamp_by"))
    for side, names in zip(EXPLAIN.sides, has, strict=True):
        if any(shown <= names for shown in SHOWN_BY) and not names.issuperset(names_in(side.value_of(args, "key") or str(side.key))):
            raise InputError(
                f"{side.name}: {side.path(args)} has events in envelopes, which explain does not read: {_rows_of_events()}"
            )
    by_default = set[str]()
    for side, changelog, names in zip(EXPLAIN.sides, looked_at, has, strict=True):
        if of_both is not None and not are_ordered:
            side.set(args, "sequence_by", of_both)
        if side.value_of(args, "timestamp_by") is None and side.value_of(args, "sequence_by") and "updated_at" not in names:
            side.set(args, "timestamp_by", "")
        if side.value_of(args, "apply_as_deletes") is None and ("op" in names or not changelog.types):
            side.set(args, "apply_as_deletes", "op" if "op" in names else "")
        by_default |= take_defaults(side, args)
    return by_default


def _changelog(side: Side, args: argparse.Namespace, *, looks: bool = False) -> "Changelog":
    """The changelog of an input; ``looks``: without the columns of options that have no default."""
    from beam_joins.pipelines.changelogs.changelog_files import find_changelog
    from beam_joins.pipelines.formats.changelog_columns import Columns

    path = side.path(args)
    columns = Columns(key=(), csv=csv_of(side, args), side=side.option) if looks else columns_of(side, args)
    changelog = find_changelog(side.name, path, columns, folders=True)
    if len(changelog.first) > MOST_RECORDS:
        raise InputError(f"{path} has more than {MOST_RECORDS} records: give a part of it that can be looked at")
    if not changelog.first:
        raise InputError(f"{path} has no record")
    return changelog


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, usage=f"{PROGRAM} LEFT RIGHT [option ...]", description=EXPLAIN.about, epilog=EXPLAIN.examples)
    parser.add_argument("left", nargs="?", metavar="LEFT", help="changelog of the left table: JSON lines, CSV, Parquet, Avro or Arrow")
    parser.add_argument("right", nargs="?", metavar="RIGHT", help="changelog of the right table")
    _add_options(parser)
    add_options_file(parser)
    parser.add_argument("--title", metavar="TEXT", help="the title (default: the kind of the join)")
    parser.add_argument("--svg", metavar="FILE", help="also draw the timeline into a file")
    about = "The options of join, here for both inputs; with --left- or --right- in place of -- for one. Where both inputs have "
    about += "the column position, it is the sequence by default; by default a missing or null op is an upsert."
    add_reader_options(parser.add_argument_group("columns", about), BOTH, names=ROW_OPTIONS)
    for side in EXPLAIN.sides:
        add_reader_options(parser, side, names=ROW_OPTIONS, shown=False)
    parser.set_defaults(state_dir=None, **{side.dest(name): None for side in EXPLAIN.sides for name in READER_OPTIONS})
    return parser
