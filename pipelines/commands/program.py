"""The name by which a program was called, so that its messages and its help show a command that the reader can type
again; and the parser of its options.
"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from beam_joins.pipelines.commands.earlier_options import name_now

INSTALLED = "beam-joins"
_ALSO_CALLED: Final = {
    "full": "outer",
    "full_outer": "outer",
    "fullouter": "outer",
    "leftouter": "left",
    "rightouter": "right",
    "exists": "semi",
    "ignore": "drop",
    "skip": "drop",
    "json": "jsonl",
    "make": "create",
    "status": "show",
    "delete": "drop",
    "remove": "drop",
}
"""Choices by the names that other tools give them."""


_COMMAND: Final = re.compile(rf"  ({INSTALLED}|python -m) ")
_LEAD: Final = re.compile(r"  \S+ {2,}| *")
"""The first column of a list, or the spaces before a line."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps each line at the width of the terminal, between words; commands so that they can be pasted."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for each in text.splitlines() for line in _wrapped(each, width - len(indent)))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


def _wrapped(line: str, width: int) -> list[str]:
    r"""A line of help in lines of a width: a command is cut before its options, a list hangs below its second column.

    >>> _wrapped("  beam-joins join --left a.csv --key id", 34)
    ['  beam-joins join --left a.csv \\', '      --key id']
    >>> _wrapped("  join    two tables in, one out", 24)
    ['  join    two tables in,', '          one out']
    """
    if _COMMAND.match(line):
        units, lines = re.split(" (?=--)", line), list[str]()
        for unit in units:
            if lines and len(lines[-1]) + len(unit) + 3 <= width:
                lines[-1] += f" {unit}"
            else:
                lines.append(f"      {unit}" if lines else unit)
        return [f"{each} \\" for each in lines[:-1]] + lines[-1:]
    lead = _LEAD.match(line)
    hanging = " " * (lead.end() if lead else 0)
    wrapped = textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)
    return wrapped or [""]


class Repeated(argparse.Action):
    """An option that may be given several times: the list of its values."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None) -> None:
        """Add a value."""
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or ()), values])


class Parser(argparse.ArgumentParser):
    """Parses options, none of them abbreviated; an error is one line with the nearest choice, and exit code 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help, "allow_abbrev": False, **options})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse options, none of them unknown; an unknown one is told before its value is taken for an argument."""
        arguments = list(sys.argv[1:] if args is None else args)
        for each in arguments[: arguments.index("--")] if "--" in arguments else arguments:
            if each.startswith("--") and " " not in each and each.partition("=")[0] not in self._option_string_actions:
                self.error_unknown(each, each)
        return super().parse_args(arguments, namespace)

    def error_unknown(self, option: str, shown: str, about: str = "see --help", others: Iterable[str] = ()) -> NoReturn:
        """Print the error that an option, ``shown`` with its value, is unknown, and exit; ``others`` are known elsewhere."""
        name = option.partition("=")[0]
        self.error(f"unknown option: {shown}{nearest(name, self._option_string_actions) or nearest(name, others)} ({about})")

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit."""
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            named = action if action.option_strings else None
            raise argparse.ArgumentError(named, f"{value!r} is none of {', '.join(choices)}{nearest(str(value), choices)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """The suggestion for a name that is none of these; empty where no name is near.

    >>> nearest("left-kye", ["left-key", "right-key"]), nearest("x", ["left-key"]), nearest("FULL", ["inner", "outer"])
    (': do you mean left-key?', '', ': do you mean outer?')
    """
    possible = list(names)
    meant = _ALSO_CALLED.get(name.lower().replace("-", "_"))
    if (now := name_now(name, possible)) is not None:
        return f": it is {now} now"
    matches = [meant] if meant in possible else get_close_matches(name.lower(), possible, 1)
    return f": do you mean {matches[0]}?" if matches else ""


def program(name: str) -> str:
    """The command that runs `name`, as it was called: `beam-joins orders`, `python -m beam_joins orders`,
    `python -m pipelines.orders`.

    Where the process runs something else, a test for one, it is the module in a checkout.

    >>> program("orders")
    'python -m pipelines.orders'
    """
    if os.path.basename(sys.argv[0]) in (INSTALLED, f"{INSTALLED}.exe"):
        return f"{INSTALLED} {name}"
    module = f"pipelines.{name}"
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    called = str(spec.name) if spec else ""
    if called in (module, f"beam_joins.{module}"):
        return f"python -m {called}"
    if called in ("pipelines.__main__", "beam_joins.__main__", "beam_joins.pipelines.__main__"):
        return f"python -m {called.removesuffix('.__main__')} {name}"
    return f"python -m {module}"
