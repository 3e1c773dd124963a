"""The options that the commands share."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from beam_joins.errors import InputError
from beam_joins.pipelines.base.path_patterns import linked
from beam_joins.pipelines.commands.command_line import add_runner, parse_known
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.commands.reader_options import (
    SNAPSHOTS,
    add_reader_options,
    names_in,
    reader_help,
    take_defaults,
    take_snapshots,
)
from beam_joins.pipelines.commands.result_groups import ResultGroups
from beam_joins.pipelines.commands.result_options import add_result_options
from beam_joins.pipelines.commands.spooled_inputs import take_addresses
from beam_joins.pipelines.systems.inputs import FORMS
from beam_joins.pipelines.systems.targets import target_at

_OF_JOB: Final = ("how", "on_bad_record", "emit")
_DELTA: Final = "delta:"


def parse(spec: CommandSpec, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; ``beam_options`` of the result are the options of Beam's. Exits with code 2 for an option of
    neither.
    """
    args, beam_options = parse_known(parser_of(spec), argv)
    args.beam_options = beam_options
    args.by_default = set()
    args.to_target = None if args.to is None else target_at("--to", args.to)
    args.to = args.to_target and args.to_target.shown
    take_snapshots(spec, args)
    take_addresses(spec, args)
    _require_other_target(spec, args)
    for side in spec.sides:
        args.by_default |= take_defaults(side, args)
    return args


def _require_other_target(spec: CommandSpec, args: argparse.Namespace) -> None:
    """Raise InputError for a Delta table that is read and written: each run would read what the one before has written."""
    target = "" if args.to is None else str(args.to)
    for side in spec.sides:
        path = side.path(args) or ""
        if path.startswith(_DELTA) and target.startswith(_DELTA) and linked(path[len(_DELTA) :]) == linked(target[len(_DELTA) :]):
            raise InputError(f"--to: {target} is read by --{side.path_option}: name another table")


def what_is_made(spec: CommandSpec, args: argparse.Namespace) -> dict[str, Any]:
    """The options about the result, as arguments of :class:`~beam_joins.pipelines.commands.job.Job`.

    Raises InputError.
    """
    values = {name: value for name in _OF_JOB if (value := getattr(args, name, None)) is not None}
    made = {"select": spec.selected(args), "computed": spec.computed(args), "keeps": spec.keeps(args), "reports": bool(args.report)}
    return {**made, **values, "foreign_key": names_in(getattr(args, "foreign_key", None) or ""), "groups": ResultGroups.of(args)}


def parser_of(spec: CommandSpec) -> Parser:
    """The parser of all options of a command but Beam's."""
    paths = " ".join(f"--{side.path_option} PATH" for side in spec.sides)
    called = program(spec.command)
    parser = Parser(prog=called, usage=f"{called} {paths} [option ...]", description=spec.about, epilog=spec.examples)
    files = parser.add_argument_group(
        "inputs",
        f"PATH is {reader_help('path', spec.sides[0])}. An input may have files of several formats. -: JSON lines of the "
        f"standard input. {FORMS}",
    )
    for side in spec.sides:
        files.add_argument(f"--{side.path_option}", metavar="PATH", help=f"changelog of {side.name}{spec.without_path}")
        files.add_argument(
            side.flag(SNAPSHOTS),
            metavar="PATH",
            help=f"in place of --{side.path_option}, whole exports of the {side.name}: each file, or the files of one time, are the "
            "table at that time, and the rows that differ from those of the export before are its changes",
        )
    files.add_argument(
        "--on-bad-record",
        choices=("fail", "drop"),
        default="fail",
        help=f"{reader_help('on_bad_record', spec.sides[0])}, and the first few named (default: %(default)s)",
    )
    files.add_argument(
        "--emit",
        choices=("updates", "changes"),
        help="the records that are changes of a table: updates, all but deletes of absent rows; changes, only those that change the "
        "columns that are read (default: updates, of snapshots changes)",
    )
    spec.add_options(parser)
    add_result_options(parser, spec)
    first, *others = spec.sides
    add_reader_options(parser.add_argument_group(f"columns of the {first.name}"), first)
    for side in others:
        like = f"The options of the {first.name} with {side.flag('')} in place of {first.flag('')}; {side.flag('key')} is "
        like += f"{side.key} by default."
        add_reader_options(parser.add_argument_group(f"columns of the {side.name}", like), side, shown=False)
    add_runner(parser)
    return parser
