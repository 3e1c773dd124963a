"""Options that differ from those of the runs before: which may, and what then has to be read or made again."""

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from beam_joins.errors import InputError
from beam_joins.options.operations import word
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.reader_options import OF_EACH_RUN, READER_OPTIONS, column_and_words, names_in
from beam_joins.pipelines.commands.result_options import changes_as, changes_pattern
from beam_joins.pipelines.formats.csv_schema import delimiter_of, encoding_of, items_of
from beam_joins.pipelines.formats.registry import format_of

_SEVERAL: Final = 2
_READ: Final[dict[str, Callable[[str], object]]] = {
    "-key": names_in,
    "-sequence-by": names_in,
    "-schema-overrides": lambda value: frozenset(items_of(value)),
    "-delimiter": delimiter_of,
    "-encoding": encoding_of,
}
"""What the values of options stand for, by the endings of their names."""
_FORMATS_OF_RESULTS: Final = ("--changes", "--latest")
"""The results in files, whose formats may be others in each run."""


def fixed_options(args: argparse.Namespace, spec: CommandSpec) -> dict[str, str]:
    """The options that the state depends on, or a result: those that are given or have a default."""
    values = {
        f"--{name.replace('_', '-')}": vars(args)[name]
        for name in (
            *spec.fixed,
            *(side.dest(column) for side in spec.sides for column in READER_OPTIONS if column not in OF_EACH_RUN),
        )
    }
    places = {"--changes": changes_pattern(args.changes) if args.changes else None, "--latest": args.latest}
    formats = {option: format_of(option, place).name for option, place in places.items() if place}
    values |= {"--to": args.to, "--output-records": changes_as(args) if args.changes else None}
    return {option: str(value) for option, value in values.items() if value is not None} | formats


def differing_options(options: dict[str, str], before: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The options that are not as in the runs before, with their values then and now; those that mean the same are the same.

    >>> differing_options({"--how": "left", "--left-key": "region, id"}, {"--how": "inner", "--left-key": "region,id"})
    {'--how': ('inner', 'left')}
    """
    values = {option: (before.get(option), options.get(option)) for option in sorted({*options, *before})}
    return {option: (then, now) for option, (then, now) in values.items() if _meaning(option, then) != _meaning(option, now)}


def _meaning(option: str, value: str | None) -> object:
    """What a value stands for, however it is written.

    >>> _meaning("--left-ignored", "op=X, y") == _meaning("--left-ignored", "op=y,x")
    True
    """
    if value is None:
        return None
    if option in _FORMATS_OF_RESULTS:  # rows have one form, whatever is written
        return True
    if option.endswith(("-apply-as-deletes", "-apply-as-upserts", "-apply-as-truncates", "-ignored")):
        column, words = column_and_words(value)
        return column, None if words is None else frozenset(map(word, words))
    for ending, read in _READ.items():
        if value and option.endswith(ending):
            return read(value)
    return value


def require_allowed(differing: dict[str, tuple[str | None, str | None]], args: argparse.Namespace, spec: CommandSpec) -> None:
    """Raise InputError, naming option and values, for an option that may not differ from the runs before in this run."""
    of_sides = {option: _sides_of(option, *values, args, spec) for option, values in differing.items()}
    for option, sides in sorted(of_sides.items(), key=lambda each: each[1] is not None):  # first those that may not differ at all
        then, now = differing[option]
        is_said = f"{option} is {value_in_words(now)}, but {value_in_words(then)} in the runs before: give it as it was, or"
        if sides is None:
            raise InputError(f"{is_said} another --state-dir than {args.state_dir}")
        if lacking := [side for side in sides if side.path_option not in args.read_again]:
            again = " ".join(f"--read-again {side.path_option}" for side in lacking)
            raise InputError(f"{is_said} {again}, which reads the {lacking[0].name} from the beginning")
        if args.changes and changes_as(args) == "upserts":  # they cannot say that rows of earlier runs are void
            raise InputError(f"{is_said} another --state-dir than {args.state_dir}, as upserts cannot begin anew")
        if not args.rebuilds:
            raise InputError(f"{is_said} --beam_joins_changed=rebuild, which makes the result anew")


def _sides_of(option: str, then: str | None, now: str | None, args: argparse.Namespace, spec: CommandSpec) -> Sequence[Side] | None:
    """The inputs that must be read again where an option differs from the runs before; ``None``: it may not differ."""
    for side in spec.sides:
        if option in (side.flag(name) for name in READER_OPTIONS):
            # positions in another log or column cannot be compared with those of the runs before
            is_other_order = option == side.flag("sequence_by") and names_in(then or "")[:1] != names_in(now or "")[:1]
            return None if is_other_order or option == side.flag("format") else [side]
    first, *others = spec.sides
    if option == "--foreign-key":  # the columns of the right key are named as those of the left one where rows of one key are joined
        is_named_so = all(len(names_in(side.value_of(args, "key") or "")) < _SEVERAL for side in spec.sides)
        return [first] if is_named_so or None not in (then, now) else spec.sides
    if option in (f"--{name.replace('_', '-')}" for name in spec.fixed) or (option == "--latest" and then is None):
        return ()
    return None


def value_in_words(value: str | None) -> str:
    """The value of an option in a sentence.

    >>> value_in_words("left"), value_in_words(""), value_in_words(None)
    ('left', 'empty', 'not given')
    """
    return "not given" if value is None else value or "empty"
