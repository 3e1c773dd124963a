"""The options of a command's inputs: those of the public readers, with their help, ``--left-`` before their names."""

import ast
import re
from argparse import SUPPRESS, Namespace
from collections.abc import Container, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from beam_joins.errors import InputError
from beam_joins.options.operations import DELETES
from beam_joins.options.spans import seconds_of
from beam_joins.pipelines.base.declared_options import DeclaredOption, declared_options
from beam_joins.pipelines.commands.command_spec import CommandSpec, Side
from beam_joins.pipelines.commands.program import Repeated
from beam_joins.pipelines.formats.changelog_columns import Columns, Envelopes, enveloped
from beam_joins.pipelines.formats.csv_schema import QUOTED, TYPES, CsvText, Layout, is_type, items_of, unquoted
from beam_joins.pipelines.systems.inputs import is_address

_OF_COMMANDS: Final = {"path", "schema", "except_columns", "emit", "without_earlier", "on_bad_record"}
"""Options of readers that a command sets itself, or names once for all inputs: ``--select`` takes columns."""
_ALL_OF_ROWS: Final = declared_options("beam_joins.pipelines.systems.files.read_changelog", "ReadChangelog")
_ALL_OF_EVENTS: Final = declared_options("beam_joins.pipelines.systems.files.read_change_events", "ReadChangeEvents")
_OF_ROWS: Final = {name: option for name, option in _ALL_OF_ROWS.items() if name not in _OF_COMMANDS}
_OF_EVENTS: Final = {name: option for name, option in _ALL_OF_EVENTS.items() if name not in _OF_COMMANDS}
_ALL_OF_SNAPSHOTS: Final = declared_options("beam_joins.pipelines.systems.files.read_snapshots", "ReadSnapshots")
_OF_SNAPSHOTS: Final = {name: option for name, option in _ALL_OF_SNAPSHOTS.items() if name not in _OF_COMMANDS}
_OPTIONS: Final = {**_OF_EVENTS, **_OF_SNAPSHOTS, **_OF_ROWS}
SNAPSHOTS: Final = "snapshots"
"""The name of the option that gives the path of snapshots, and says of an input that it has them."""
READER_OPTIONS: Final = (*_OPTIONS, SNAPSHOTS, "schema_overrides")
"""The names of the options of an input."""
OF_EACH_RUN: Final = frozenset({"max_ahead", "min_share"})
"""The names of those that may differ from one run to the next."""
ROW_OPTIONS: Final = (*_OF_ROWS, "schema_overrides")
"""The names of those of an input without envelopes."""
_DEFAULTS: Final = {"timestamp_by": "updated_at", "sequence_by": "lsn", "apply_as_deletes": f"op={','.join(sorted(DELETES))}"}
"""The defaults of options of inputs without envelopes, as they are written."""
_SHOWN_DEFAULTS: Final = {
    "timestamp_by": "updated_at; empty: none",
    "sequence_by": "lsn; empty: none",
    "apply_as_deletes": "op with these values, where null is a bad record; empty: none",
}
_SPANS: Final = "seconds, a ``timedelta`` or a Beam ``Duration``"
_LITERAL: Final = re.compile(r"``(.+?)``|:(class|data):`~?([\w.]+)`")


def add_reader_options(group: Any, side: Side, *, names: Container[str] = READER_OPTIONS, shown: bool = True) -> None:
    """Add the options of an input with these ``names`` to a group of the parser; ``shown``: with their help."""
    for name, option in _OPTIONS.items():
        if name not in names:
            continue
        kind: dict[str, Any] = {"choices": option.choices} if option.choices else {"metavar": _metavar(option)}
        if _is_repeated(option):
            kind["action"] = Repeated
        group.add_argument(side.flag(name), help=_help(option, side) if shown else SUPPRESS, **kind)
    group.add_argument(
        side.flag("schema_overrides"),
        default="",
        metavar="TYPES",
        help=f"types of columns, as in id:int64,amount:decimal(12,2): {', '.join(TYPES)}; by default as files and envelopes say "
        "them, and of CSV files as their first megabyte has them"
        if shown
        else SUPPRESS,
    )


def take_snapshots(spec: CommandSpec, args: Namespace) -> None:
    """Have the paths of snapshots be those of their inputs. Raises InputError for an input with two paths, or one of no files."""
    for side in spec.sides:
        path, flag = side.value_of(args, SNAPSHOTS), side.flag(SNAPSHOTS)
        if path is None:
            continue
        if side.path(args) is not None:
            raise InputError(f"--{side.path_option} and {flag} both say where the {side.name} are: give one of them")
        if path == "-" or is_address(path):
            raise InputError(f"{flag}: {path} is no file: name a file, a folder or a pattern")
        setattr(args, side.path_option, path)
        side.set(args, SNAPSHOTS, "yes")


def take_defaults(side: Side, args: Namespace) -> set[str]:
    """Give an input without envelopes the defaults of its options; returns the names of these in ``args``."""
    if side.value_of(args, "format") is not None:
        return set()
    if _has_snapshots(side, args):
        if side.value_of(args, "key") is None:
            side.set(args, "key", side.key)
        return set()
    literals = {name: option.default.strip("'") for name, option in _OF_ROWS.items() if option.choices}
    absent = [each for each in ({"key": side.key} | _DEFAULTS | literals).items() if side.value_of(args, each[0]) is None]
    for name, default in absent:
        side.set(args, name, default)
    if "apply_as_deletes" in dict(absent):  # a word of another option is no delete
        words = [_operations(side, args, name) for name in ("apply_as_upserts", "apply_as_truncates", "ignored")]
        taken = {word.lower() for each in words if isinstance(each, dict) for word in each.get("op", ())}
        side.set(args, "apply_as_deletes", f"op={','.join(sorted(DELETES - taken))}")
    return {side.dest(name) for name, _ in absent}


def columns_of(side: Side, args: Namespace) -> Columns:
    """The columns of an input, as its options say. Raises InputError."""
    envelope = side.value_of(args, "format")
    if _has_snapshots(side, args):
        return _columns_of_snapshots(side, args)
    for name in _OF_SNAPSHOTS.keys() - _OF_ROWS.keys():
        if vars(args).get(side.dest(name)) is not None:
            raise InputError(f"{side.flag(name)} is for snapshots: give {side.flag(SNAPSHOTS)} in place of --{side.path_option}")
    if envelope is not None:
        for name in _OF_ROWS.keys() - _OF_EVENTS.keys():
            if side.value_of(args, name) is not None and envelope not in _OF_EVENTS["format"].choices:
                raise InputError(f"{side.flag(name)} is for files: leave it out with an address, whose log says that itself")
            if side.value_of(args, name) is not None:
                raise InputError(
                    f"{side.flag(name)} is not for {side.flag('format')}={envelope}, whose envelopes say that themselves: leave it out"
                )
        return replace(enveloped(side.option, _envelopes(side, args)), declared=_schema_overrides(side, args))
    for name in _OF_EVENTS.keys() - _OF_ROWS.keys():
        if side.value_of(args, name):
            raise InputError(f"{side.flag(name)} is for files of envelopes: give {side.flag('format')} too, or leave it out")
    values = {name: _value(side, args, name) for name in _OF_ROWS}
    if not values["key"]:
        raise InputError(f"{side.flag('key')} must name a column")
    from beam_joins.pipelines.systems.files.changelog_options import plain_columns  # noqa: PLC0415  # with Beam

    key = tuple(values.pop("key"))
    try:
        return replace(plain_columns(**values, side=side.option), key=key, declared=_schema_overrides(side, args))
    except ValueError as error:
        raise InputError(str(error)) from error


def csv_of(side: Side, args: Namespace) -> CsvText:
    """How the CSV files of an input are written, as its options say. Raises InputError."""
    from beam_joins.pipelines.systems.files.changelog_options import plain_columns  # noqa: PLC0415  # with Beam

    values = {name: _value(side, args, name) for name in ("delimiter", "encoding", "column_formats")}
    try:
        return plain_columns(**values, side=side.option).csv
    except ValueError as error:
        raise InputError(str(error)) from error


def _has_snapshots(side: Side, args: Namespace) -> bool:
    return vars(args).get(side.dest(SNAPSHOTS)) is not None


def _columns_of_snapshots(side: Side, args: Namespace) -> Columns:
    """The columns of an input of snapshots. Raises InputError."""
    for name in (_OF_EVENTS.keys() | _OF_ROWS.keys()) - _OF_SNAPSHOTS.keys():
        if side.value_of(args, name):
            raise InputError(f"{side.flag(name)} is not for snapshots, whose rows are no changes: leave it out")
    values = {name: value for name in _OF_SNAPSHOTS if (value := _value(side, args, name)) is not None}
    if not values.get("key"):
        raise InputError(f"{side.flag('key')} must name a column")
    from beam_joins.pipelines.systems.files.snapshot_options import snapshot_columns  # noqa: PLC0415  # with Beam

    try:
        return replace(snapshot_columns(**values, side=side.option), declared=_schema_overrides(side, args))
    except ValueError as error:
        raise InputError(str(error)) from error


def names_in(listed: str) -> tuple[str, ...]:
    """The columns of a list with commas, in double quotes where they have commas themselves.

    >>> names_in('region, "net, EUR"')
    ('region', 'net, EUR')
    """
    return tuple(map(unquoted, items_of(listed)))


def _envelopes(side: Side, args: Namespace) -> Envelopes:
    """The envelopes that the rows of an input are in, as the options say. Raises InputError."""
    format_, placeholders = side.value_of(args, "format"), tuple(side.value_of(args, "unavailable_value") or ())
    if placeholders and format_ != "debezium":
        raise InputError(f"{side.flag('unavailable_value')} is for {side.flag('format')}=debezium: leave it out")
    return Envelopes(format_, side.value_of(args, "table") or "", tuple(_value(side, args, "key") or ()), placeholders=placeholders)


def _schema_overrides(side: Side, args: Namespace) -> Layout:
    """The types of columns that the options give. Raises InputError."""
    values = []
    for each in items_of(side.value_of(args, "schema_overrides")):
        name, _, kind = each.rpartition(":")
        if not name or not is_type(kind):
            flag = side.flag("schema_overrides")
            raise InputError(f"{flag}: {each} is not of the form COLUMN:TYPE with one of the types {', '.join(TYPES)}")
        values.append((unquoted(name), kind))
    return tuple(values)


def _value(side: Side, args: Namespace, name: str) -> Any:
    """The value of an option as the reader takes it; None where it is absent or empty."""
    text, option = side.value_of(args, name), _OPTIONS[name]
    if "Operations" in option.annotation:
        return _operations(side, args, name)
    if "ColumnFormats" in option.annotation:
        return _column_formats(side, args, name)
    if text and "Span" in option.annotation:
        try:
            return seconds_of(text)
        except ValueError as error:
            raise InputError(f"{side.flag(name)}: {error}") from error
    if text and option.annotation == "float":
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{side.flag(name)}: {text!r} is no number") from None
    if text and name.endswith("_by") and "Sequence" not in option.annotation:
        return unquoted(text)
    return (names_in(text) if "Sequence" in option.annotation else text) or None if text else None


def _operations(side: Side, args: Namespace, name: str) -> str | Mapping[str, list[str]] | None:
    """A column and some of its values, or a column alone where the reader takes one; None where the option is absent or
    empty. Raises InputError.
    """
    text = side.value_of(args, name)
    if not text:
        return None
    column, words = column_and_words(text)
    if words is None and "str" in _OPTIONS[name].annotation:
        return column
    if not column or not words:
        raise InputError(f"{side.flag(name)}: {text!r} is no column with values: write {_metavar(_OPTIONS[name])}, as in op=d,delete")
    return {column: [*words]}


def _column_formats(side: Side, args: Namespace, name: str) -> dict[str, list[str]] | None:
    """Columns, each with its formats; None where the option is absent. Raises InputError."""
    formats: dict[str, list[str]] = {}
    for text in side.value_of(args, name) or ():
        column, format_ = _column_and_rest(text)
        if not column or not format_:
            raise InputError(f"{side.flag(name)}: {text!r} is no column with a format: write COLUMN=FORMAT, as in amount=1.234,5")
        formats[column] = format_.split("|")  # the later one wins, as of the command line over files
    return formats or None


def _column_and_rest(text: str) -> tuple[str, str | None]:
    """A column, in double quotes where its name has a sign of equality, and the text behind that."""
    quoted = QUOTED.match(text)
    column, equals, rest = (text[: quoted.end()], *text[quoted.end() :].partition("=")[1:]) if quoted else text.partition("=")
    return unquoted(column), rest if equals else None


def column_and_words(text: str) -> tuple[str, tuple[str, ...] | None]:
    """A column and values of it; ``None`` where it stands alone.

    >>> column_and_words('"a=b"=d,x'), column_and_words("deleted")
    (('a=b', ('d', 'x')), ('deleted', None))
    """
    column, listed = _column_and_rest(text)
    return column, None if listed is None else names_in(listed)


def _is_repeated(option: DeclaredOption) -> bool:
    """Whether an option is given once for each of its values, which may have commas."""
    return option.default == "()" or "ColumnFormats" in option.annotation


def _metavar(option: DeclaredOption) -> str:
    if "Operations" in option.annotation:
        return "COLUMN[=VALUES]" if "str" in option.annotation else "COLUMN=VALUES"
    if _is_repeated(option):
        return "COLUMN=FORMAT" if "ColumnFormats" in option.annotation else "TEXT"
    if "Span" in option.annotation:
        return "TIME"
    if option.annotation == "float":
        return "NUMBER"
    if option.name.endswith("_in_path"):
        return "FORM"
    return "COLUMNS" if "Sequence" in option.annotation else "COLUMN" if option.name.endswith("_by") else "NAME"


def _help(option: DeclaredOption, side: Side) -> str:
    """The help of an option: its text, and its default on the command line."""
    text = reader_help(option.name, side)
    if _is_repeated(option):
        text = f"{text}. May be repeated"
    default = f"{side.key}; of envelopes the key that they name" if option.name == "key" else _SHOWN_DEFAULTS.get(option.name)
    return f"{text} (default: {default})" if default else text


def reader_help(name: str, side: Side) -> str:
    """The reader's text of an option, as the command line writes it."""

    def written(match: re.Match[str]) -> str:
        literal, role, path = match.groups()
        if role == "class":
            return str(path.rpartition(".")[2])
        if role == "data":
            module, _, name = path.rpartition(".")
            return ", ".join(sorted(getattr(import_module(module), name)))
        if literal in _OPTIONS:
            return side.flag(literal)
        try:
            return _written(ast.literal_eval(literal))
        except (SyntaxError, ValueError):
            return str(literal)

    option = (_ALL_OF_ROWS | _OPTIONS)[name]
    text = option.text.replace(_SPANS, "as in 10s, 5m or 1d")
    return _LITERAL.sub(written, text).removesuffix(".").replace("%", "%%")


def _written(value: Any) -> str:
    """A value of Python as the command line has it.

    >>> _written({"op": ["d", "delete"]}), _written(["region", "id"]), _written("us")
    ('op=d,delete', 'region,id', 'us')
    """
    if isinstance(value, Mapping):
        return " ".join(f"{column}={_written(words)}" for column, words in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_written, value))
    return f'"{value}"' if value == "," else str(value)
