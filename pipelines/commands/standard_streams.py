"""Standard input and output in place of files: ``-`` as the path of an input, or of a result."""

import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from beam_joins.errors import InputError
from beam_joins.pipelines.commands.command_spec import CommandSpec

STANDARD: Final = "-"
_RESULTS: Final = ("output", "latest")


def standard_result(args: Namespace) -> str | None:
    """The option whose result goes to standard output. Raises InputError if several do."""
    options = [name for name in (*_RESULTS, "json") if getattr(args, name) == STANDARD]
    if len(options) > 1:
        raise InputError(f"--{options[0]} and --{options[1]} are both -: one of them can be on standard output")
    return next((name for name in options if name in _RESULTS), None)


@contextmanager
def standard_streams(spec: CommandSpec, args: Namespace) -> Iterator[None]:
    """Lines of JSON that come by standard input lie in a file while the block runs; a result follows when it has ended.

    Raises InputError if there is more than one of either.
    """
    result = standard_result(args)
    inputs = [side.path_option for side in spec.sides if side.path(args) == STANDARD]
    if len(inputs) > 1:
        raise InputError(f"--{inputs[0]} and --{inputs[1]} are both -: one of them can come by standard input")
    if not inputs and result is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="beam-joins-") as folder:
        for option in inputs:
            path = Path(folder, "standard-input.jsonl")
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
            setattr(args, option, str(path))
        if result is None:
            yield
            return
        path = Path(folder, f"{result}.jsonl")
        setattr(args, result, str(path))
        args.parts = False
        yield
        if args.dry_run:
            return
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
