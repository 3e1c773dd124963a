"""The options that the commands share."""

import argparse
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.operations import DELETES, NOT_NULL, NULL, UPSERTS
from beam_joins.pipelines.commands.command_line import add_runner, parse_known
from beam_joins.pipelines.commands.command_spec import Names, Side
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.commands.runs_options import add_runs_options
from beam_joins.pipelines.commands.slot_inputs import take_addresses
from beam_joins.pipelines.commands.topic_inputs import take_topics
from beam_joins.pipelines.formats.columns import NANOSECONDS, Columns, Envelopes, enveloped
from beam_joins.pipelines.formats.layout import DELIMITER_NAMES, TYPES, Layout, delimiter_of, encoding_of, is_type
from beam_joins.pipelines.io.targets import target_at

_DEFAULTS: Final[dict[str, Any]] = {
    "timestamp": "updated_at",
    "timestamp_unit": "us",
    "sequence": "lsn",
    "delete_column": "op",
    "deletes": None,
    "upserts": None,
    "ignored": None,
}
"""What says of a record what it is, where no option does and no envelope."""


_OF_JOB: Final = ("how", "on_bad_record")


class Arguments(NamedTuple):
    """Our own options, and those that are Beam's."""

    args: argparse.Namespace
    beam: list[str]


def parse(names: Names, argv: Sequence[str] | None) -> Arguments:
    """Parse the command line; exits with code 2 for an option that neither we nor Beam knows."""
    arguments = Arguments(*parse_known(_parser(names), argv))
    args = arguments.args
    args.by_default = set()
    args.to_target = None if args.to is None else target_at("--to", args.to)
    args.to = args.to_target and args.to_target.shown
    take_addresses(names, args)
    take_topics(names, args)
    for side in names.sides:
        for name, default in (("key", side.key), *_DEFAULTS.items()) if side.value_of(args, "format") is None else ():
            if side.value_of(args, name) is None:
                side.set(args, name, default)
                args.by_default.add(side.dest(name))
    return arguments


def columns_of(side: Side, args: argparse.Namespace) -> Columns:
    """The columns of an input, as the options say. Raises InputError."""
    values = {name: side.value_of(args, name) for name in ("key", *_DEFAULTS)}
    envelope = side.value_of(args, "format")
    if envelope is not None:
        for name in _DEFAULTS:
            if values[name] is not None and args.slot_address is not None:
                raise InputError(f"{side.flag(name)} is for files: leave it out with an address, whose log says that itself")
            if values[name] is not None:
                raise InputError(
                    f"{side.flag(name)} is not for {side.flag('format')}={envelope}, whose envelopes say that themselves: leave it out"
                )
        return enveloped(side.option)
    if side.value_of(args, "table"):
        raise InputError(f"{side.flag('table')} is for files of envelopes: give {side.flag('format')} too, or leave it out")
    for option in ("key", "timestamp"):
        if not names_in(values[option]):
            raise InputError(f"{side.flag(option)} must name a column")
    columns = names_in(values["sequence"])
    deletes, upserts, ignored = _operations(side, values)
    return Columns(
        key=names_in(values["key"]),
        timestamp=values["timestamp"],
        unit=values["timestamp_unit"],
        sequence=columns[0] if columns else None,
        within=columns[1:],
        delete=values["delete_column"] or None,
        deletes=deletes,
        upserts=upserts,
        ignored=ignored,
        csv=(side.value_of(args, "delimiter") or "", side.value_of(args, "encoding") or ""),
        side=side.option,
    )


def names_in(listed: str) -> tuple[str, ...]:
    """The columns of a list with commas.

    >>> names_in("region, id")
    ('region', 'id')
    """
    return tuple(filter(None, map(str.strip, listed.split(","))))


def what_is_made(names: Names, args: argparse.Namespace) -> dict[str, Any]:
    """What the options say of the result, as :class:`~beam_joins.pipelines.commands.job.Job` takes it.

    Raises InputError.
    """
    values = {name: value for name in _OF_JOB if (value := getattr(args, name, None)) is not None}
    made = {"items": names.items(args), "keeps": names.keeps(args), "reports": bool(args.report)}
    return {**made, **values, "foreign_key": names_in(getattr(args, "foreign_key", None) or "")}


def envelopes_of(side: Side, args: argparse.Namespace) -> Envelopes:
    """The envelopes that the rows of an input are in, as the options say. Raises InputError."""
    key = side.value_of(args, "key")
    format_, placeholders = side.value_of(args, "format"), tuple(side.value_of(args, "unavailable_value") or ())
    if placeholders and format_ != "debezium":
        raise InputError(f"{side.flag('unavailable-value')} is for {side.flag('format')}=debezium: leave it out")
    return Envelopes(format_, side.value_of(args, "table"), names_in(key or ""), placeholders=placeholders)


def layout_given(side: Side, args: argparse.Namespace) -> Layout:
    """The types of columns of CSV files that the options give. Raises InputError."""
    values = []
    for each in filter(None, map(str.strip, re.split(r",(?![^()]*\))", side.value_of(args, "schema")))):
        name, _, kind = each.rpartition(":")
        if not name or not is_type(kind):
            raise InputError(f"{side.flag('schema')}: {each} is not of the form COLUMN:TYPE with one of the types {', '.join(TYPES)}")
        values.append((name, kind))
    return tuple(values)


def _operations(side: Side, values: Mapping[str, str | None]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The words for deletes, for upserts and for what is neither; one that is given for one of them is none of
    the defaults of the others.
    """
    given = {name: _words(values[name]) for name in ("deletes", "upserts", "ignored")}
    for one, other in itertools.combinations(given, 2):
        if both := sorted((given[one] or frozenset()) & (given[other] or frozenset())):
            raise InputError(f"{', '.join(both)} stands in both {side.flag(one)} and {side.flag(other)}: a record is one or the other")
    deletes, upserts, ignored = given.values()
    if deletes is not None and NOT_NULL in deletes:
        upserts = frozenset({NULL}) if upserts is None else upserts
    taken = frozenset().union(*filter(None, given.values()))
    return (
        DELETES - taken if deletes is None else deletes,
        UPSERTS - taken if upserts is None else upserts,
        ignored or frozenset(),
    )


def _words(listed: str | None) -> frozenset[str] | None:
    return None if listed is None else frozenset(filter(None, (word.strip().lower() for word in listed.split(","))))


def _checked(read: Callable[[str], str]) -> Callable[[str], str]:
    """What reads the value of an option, for its parser."""

    def checked(text: str) -> str:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _parser(names: Names) -> Parser:
    parser = Parser(prog=program(names.command), description=names.about, epilog=names.examples)
    files = parser.add_argument_group(
        "inputs",
        "Paths or globs. The suffix says the format: .avro, .parquet, .arrow, .feather, .csv with a header, or .jsonl, "
        ".json, .ndjson with one JSON object a line (CSV and "
        "JSON lines also with .gz, .bz2 or .zst). -: JSON lines of the standard input. An input may have files of several formats. "
        "postgres://HOST/DATABASE?slot=NAME: a table of a PostgreSQL database, by a slot that beam-joins slot makes. "
        "kafka://HOST:PORT/TOPIC?format=debezium: a Kafka topic with envelopes in JSON.",
    )
    for side in names.sides:
        files.add_argument(f"--{side.path_option}", metavar="PATH", help=f"changelog of {side.name}{names.without_path}")
    files.add_argument(
        "--on-bad-record",
        choices=("fail", "drop"),
        default="fail",
        help="what to do with a line that is not JSON or a record without a usable key, time, sequence or operation "
        "(default: %(default)s); "
        "dropped ones are counted and the first few named",
    )
    names.add_options(parser)
    add_runs_options(parser, names)
    for side in names.sides:
        _add_columns(parser.add_argument_group(f"columns of the {side.name}"), side)
    add_runner(parser)
    return parser


def _add_columns(group: Any, side: Side) -> None:
    """The options that say how the rows of an input are read."""
    group.add_argument(
        side.flag("format"),
        choices=("debezium", "wal2json", "maxwell"),
        help="JSON lines in which each row is in an envelope, that says its time, its place in the sequence and "
        "whether it is deleted (default: the "
        "columns of the row say that)",
    )
    group.add_argument(
        side.flag("table"),
        default="",
        metavar="NAME",
        help="the table whose rows count, of envelopes of several (default: all rows)",
    )
    group.add_argument(
        side.flag("unavailable-value"),
        action="append",
        metavar="TEXT",
        help="the unavailable.value.placeholder of Debezium's connector, if it is not the default, or an array in "
        "JSON, as in [0]; may be repeated",
    )
    group.add_argument(
        side.flag("key"),
        metavar="COLUMNS",
        help=f"the key, as in id or region,id (default: {side.key}; of envelopes that say it the primary key)",
    )
    group.add_argument(
        side.flag("schema"),
        default="",
        metavar="TYPES",
        help=f"types of columns, as in id:int64,amount:decimal(12,2): {', '.join(TYPES)} (default: as files and envelopes say "
        "them; of CSV files as their first megabyte has them)",
    )
    group.add_argument(
        side.flag("delimiter"),
        type=_checked(delimiter_of),
        metavar="CHARACTER",
        help=f"what stands between the fields of CSV files: {' '.join(DELIMITER_NAMES)} (default: as their header shows)",
    )
    group.add_argument(
        side.flag("encoding"),
        type=_checked(encoding_of),
        metavar="NAME",
        help="the encoding of CSV files, as in cp1252 or latin-1 (default: as their byte order mark says, else utf-8)",
    )
    group.add_argument(
        side.flag("sequence"),
        metavar="COLUMNS",
        help=f"commit sequence, common to all changelogs: a whole number (default: {_DEFAULTS['sequence']}); empty: the "
        "time orders the changes; several, as "
        "in commit_lsn,lsn: the first is the position, the others say which change of a row within it is the last",
    )
    group.add_argument(
        side.flag("timestamp"),
        metavar="COLUMN",
        help=f"event time: whole number, ISO 8601 text, timestamp or date (default: {_DEFAULTS['timestamp']})",
    )
    group.add_argument(
        side.flag("timestamp-unit"),
        choices=tuple(NANOSECONDS),
        help=f"what a whole number counts since 1970 (default: {_DEFAULTS['timestamp_unit']})",
    )
    group.add_argument(
        side.flag("delete-column"),
        metavar="COLUMN",
        help=f"the operation: says whether a record deletes its row (default: {_DEFAULTS['delete_column']}); empty: none does",
    )
    for option, meaning, words, more in (
        ("deletes", "a delete", DELETES, f", {NOT_NULL} for all others, such as the time of the delete"),
        ("upserts", "an insert or an update", UPSERTS, ""),
    ):
        group.add_argument(
            side.flag(option),
            metavar="VALUES",
            help=f"the values of that column that mean {meaning}, in any case; null stands for null{more} (default: "
            f"{','.join(sorted(words))}). "
            "A record with a value in no list is a bad record",
        )
    group.add_argument(
        side.flag("ignored"),
        metavar="VALUES",
        help="the values of that column that mean no change, as update_preimage or -U for the old values beside the new ones: such "
        f"records are passed over and counted (default: none; with a - first: {side.flag('ignored')}=-U)",
    )
