"""``--options FILE.toml``: options from a file, as if they stood before those of the command line, which win."""

import argparse
import tomllib
from collections.abc import Callable, Container, Iterator
from typing import Any

from beam_joins.errors import InputError
from beam_joins.pipelines.base.input_error import os_sentence
from beam_joins.pipelines.commands.program import Repeated, nearest

_NOT_IN_FILES = {"options", "help"}


def options_in(path: str, parser: argparse.ArgumentParser, others: Callable[[], Container[str]]) -> list[str]:
    """The options of a file as arguments: ``left-key = "id"`` is ``--left-key=id``, ``follow = true`` is
    ``--follow``, and a list is its values with commas, or each of them where an option may be repeated.

    ``others`` gives the names of options that are not the parser's own, Beam's; their lists are options that
    come several times. Raises InputError for a file that cannot be read, a name that is none, and a value
    that is none.
    """
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise InputError(f"--options: cannot read {os_sentence(path, error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--options: {path} is not TOML: {error}") from error
    actions = {flag.removeprefix("--"): action for flag, action in parser._option_string_actions.items() if flag.startswith("--")}
    parser_options = {name: action for name, action in actions.items() if name not in _NOT_IN_FILES}
    arguments: list[str] = []
    for name, value in values.items():
        if name not in parser_options and (name in _NOT_IN_FILES or f"--{name}" not in others()):
            raise InputError(f"--options: {path} has '{name}', which is no option{nearest(name, parser_options)}")
        try:
            arguments += _arguments(name, value, parser_options.get(name))
        except ValueError as error:
            raise InputError(f"--options: {path} has '{name}', which {error}") from None
    return arguments


def _arguments(name: str, value: Any, action: argparse.Action | None) -> Iterator[str]:
    is_flag = action.nargs == 0 if action else isinstance(value, bool)
    if is_flag != isinstance(value, bool):
        raise ValueError("is true or false" if is_flag else "needs a value, not true or false")
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str | int | float) for each in values):
        raise ValueError("has a value that is neither text nor a number, nor a list of these")
    if is_flag:
        yield from [f"--{name}"] * value
    elif action and not isinstance(action, Repeated):
        yield f"--{name}={','.join(map(str, values))}"
    else:
        yield from (f"--{name}={each}" for each in values)
