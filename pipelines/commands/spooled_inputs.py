"""Inputs of a command at addresses: a database or a broker, whose changes are spooled into files."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from beam_joins.pipelines.changelogs.spooled import InputOptions, Inputs, Spooled
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.reader_options import columns_of
from beam_joins.pipelines.systems.inputs import inputs_of, is_address

if TYPE_CHECKING:
    from beam_joins.transforms.connect.runs import StateFolder


def take_addresses(spec: CommandSpec, args: Namespace) -> None:
    """Find the inputs at addresses, which then are addresses without secrets. Raises InputError."""
    sides = {side.name: side for side in spec.sides if is_address(side.path(args) or "")}
    options = {
        name: InputOptions(
            side.path(args),
            f"--{side.path_option}",
            side.value_of(args, "format") or "",
            side.value_of(args, "table") or "",
            side.flag,
        )
        for name, side in sides.items()
    }
    args.inputs = inputs_of(options, [f"--{side.path_option}" for side in spec.sides if side.name not in sides])
    for name, inputs in args.inputs.items():
        setattr(args, sides[name].path_option, inputs.shown[name])
        for option, value in inputs.options[name].items():
            sides[name].set(args, option, value)


def spooled(
    spec: CommandSpec, args: Namespace, state: "StateFolder | None", folder: str = "", most_rows: int | None = None
) -> Spooled:
    """The new changes of the inputs at addresses since the last run. Raises InputError."""
    columns = {side.name: columns_of(side, args) for side in spec.sides}
    envelopes = {name: each.envelopes for name, each in columns.items() if each.envelopes is not None}
    rounds = [inputs.read(envelopes, state, folder, most_rows) for inputs in _kinds(args.inputs)]
    files = {name: each for read in rounds for name, each in read.files.items()}
    tables = {name: each for read in rounds for name, each in read.tables.items()}
    return Spooled(files, tables, [remark for read in rounds for remark in read.remarks])


@contextmanager
def spooled_inputs(spec: CommandSpec, args: Namespace, most_rows: int | None = None) -> Iterator[None]:
    """All that the inputs at addresses have lies in files, ``args.spooled``, while the block runs; None without such inputs.
    ``args.spool_folder()`` gives a folder for files of the run, which is made when it is needed.
    """
    args.spooled = None
    with ExitStack() as run:
        args.spool_folder = cache(lambda: run.enter_context(TemporaryDirectory(prefix="beam-joins-spool-")))
        if args.inputs:
            args.spooled = spooled(spec, args, None, args.spool_folder(), most_rows)
        yield


def _kinds(inputs: Mapping[str, Inputs]) -> list[Inputs]:
    """The inputs of each kind, once."""
    return list({id(each): each for each in inputs.values()}.values())
