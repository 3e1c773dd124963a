"""The options for results, and for incremental runs, each of which continues from the last one."""

import argparse
import os
from typing import TYPE_CHECKING

from beam_joins.errors import InputError
from beam_joins.pipelines.base.path_patterns import finds
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.rounds import add_rounds
from beam_joins.pipelines.formats.registry import has_format
from beam_joins.pipelines.systems.targets import FORMS

if TYPE_CHECKING:
    from beam_joins.pipelines.formats.output_records import As


def add_result_options(parser: argparse.ArgumentParser, spec: CommandSpec) -> None:
    """Add them to the command line."""
    out = parser.add_argument_group(
        "results",
        "The suffix gives the format, as for inputs. Existing files are replaced when "
        "the run has succeeded. -: JSON lines on the standard output when the run has succeeded, with the summary on the "
        "standard error.",
    )
    out.add_argument(
        "--output",
        metavar="PATH",
        help=f"the changelog of the result, in the order of positions{spec.without_results[0]}",
    )
    out.add_argument(
        "--output-records",
        choices=("changes", "upserts", "pairs"),
        help="the records of --output and --changes: changes, with key, op, old, new, timestamp and position; upserts, the row after "
        "each change with timestamp, position and deleted; pairs, the rows before and after it in Debezium's form (default: changes)",
    )
    out.add_argument("--latest", metavar="PATH", help=f"the final rows of the result{spec.without_results[1]}")
    out.add_argument(
        "--to",
        metavar="ADDRESS",
        help=f"a table in another system, {FORMS}, updated in one transaction and created if it is missing. Without --state-dir, and "
        "in the first run with it, all rows of the table are replaced",
    )
    out.add_argument(
        "--parts",
        action="store_true",
        help="keep the parts of each result, PATH-00000-of-00016, instead of joining them into one file",
    )
    out.add_argument(
        "--json",
        metavar="FILE",
        help="write the summary of the run as a JSON object; with --follow a line for each run; -: to the standard output, in place "
        "of the text",
    )
    out.add_argument(
        "--dry-run",
        action="store_true",
        help="show what a run would read and write, and write nothing; reads at most the first megabyte of a file",
    )
    out.add_argument(
        "--report",
        metavar="PATH",
        help="write a page about the run, PATH.html: the slowest stages, changes over time, the rows that cause most work, samples "
        "of dropped and late records; counted in the workers",
    )
    out.add_argument(
        "--metrics-file",
        metavar="PATH",
        help="write the metrics of each run, also of one that fails, for the textfile collector of Prometheus' node_exporter, "
        "PATH.prom: counters continue those of earlier runs in the file, so that each job needs its own",
    )
    out.add_argument(
        "--lineage-file",
        metavar="PATH",
        help="append OpenLineage events of each run, START and COMPLETE, FAIL or ABORT, one line of JSON each, with inputs and "
        "results, their columns where these are typed, and the numbers of records",
    )
    paths = " and ".join(f"--{side.path_option}" for side in spec.sides)
    group = parser.add_argument_group(
        "incremental runs",
        f"With --state-dir a run reads what no earlier run has read, and continues from the tables of the last run. {paths} "
        "may be folders.",
    )
    group.add_argument(
        "--state-dir", metavar="DIR", help="the state between runs, a folder that the first run creates (default: no state)"
    )
    group.add_argument(
        "--changes",
        metavar="PLACE",
        help="the changes of each run in a separate file, in the order of positions: a folder, for changes-000001.jsonl and so on, or "
        "a name with a * for the number of the run",
    )
    group.add_argument(
        "--read-again",
        action="append",
        default=[],
        choices=[side.path_option for side in spec.sides],
        help="in this run, read the whole of an input again, as its columns or options have changed: what the state has of it is "
        "forgotten, and the result is made anew. May be repeated. Other options of the result may change with "
        "--beam_joins_changed=rebuild, which makes it anew from stored rows",
    )
    group.add_argument(
        "--on-late",
        choices=("drop", "fail"),
        default="drop",
        help="late records that are not applied, as their row has a later change: drop and count them, or fail (default: %(default)s)",
    )
    add_rounds(group)


def check_result_options(args: argparse.Namespace, spec: CommandSpec) -> None:
    """Raise InputError for options that do not go together."""
    if args.whole_files and not args.follow:
        raise InputError("--whole-files is for --follow: a single run takes all files that are there")
    if args.output_records and not args.output and not args.changes:
        raise InputError("--output-records says how --output or --changes is written: give one of them too")
    if not args.state_dir:
        fails = args.on_late == "fail"
        of_runs = {"--changes": args.changes, "--follow": args.follow, "--read-again": args.read_again, "--on-late=fail": fails}
        for option, value in of_runs.items():
            if value:
                raise InputError(f"{option} is for incremental runs: give --state-dir too")
        return
    if os.path.lexists(args.state_dir) and not os.path.isdir(args.state_dir):
        raise InputError(f"--state-dir: {args.state_dir} is no folder: name one, which the first run makes")
    if args.output:
        raise InputError("--output is one file for a run that stands alone: with --state-dir name a folder with --changes")
    _refuse_streams(spec, args)
    if args.parts:
        raise InputError("--parts is for a run that stands alone: with --state-dir each result is one file, leave it out")
    if any(side.path(args) is None for side in spec.sides):
        paths = " and ".join(f"--{side.path_option}" for side in spec.sides)
        raise InputError(f"--state-dir needs {paths}: a file, a folder or a pattern that finds those that arrive")
    refuse_read(spec, args, "--state-dir", os.path.join(args.state_dir, "manifest.json"))
    if not args.changes and not args.latest and not args.to and not args.dry_run:
        raise InputError("no result is named: with --state-dir give --changes, --latest or --to")


def descriptions(args: argparse.Namespace) -> dict[str, str]:
    """The paths of the files that describe runs as data, by their options."""
    paths = {"--json": args.json, "--metrics-file": args.metrics_file, "--lineage-file": args.lineage_file}
    return {option: path for option, path in paths.items() if path and (option, path) != ("--json", "-")}


def check_descriptions(args: argparse.Namespace, spec: CommandSpec) -> None:
    """Raise InputError for files that describe runs and cannot be written, or are those of inputs and results."""
    refuse_same(args)
    for option, path in descriptions(args).items():
        refuse_read(spec, args, option, path)
        if "://" in path:
            _require_written_whole(option, path, args.follow)
        elif os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or os.curdir):
            raise InputError(f"{option}: {path} is no file in a directory that is there: name another one, or make the directory")
    if args.metrics_file and not args.metrics_file.endswith(".prom"):
        raise InputError(f"--metrics-file: {args.metrics_file} must end in .prom, as node_exporter reads no other files")
    if args.report:
        _check_report(args.report, args.follow)


def _require_written_whole(option: str, path: str, follow: bool) -> None:
    """Raise InputError for a file of another file system to which lines are to be added, or that others read on this machine."""
    if option != "--json":
        raise InputError(f"{option}: {path} is not on this machine: name a local file")
    if follow:
        raise InputError(f"--json: with --follow each run adds a line, and no line can be added to {path}: name a local file")


def refuse_same(args: argparse.Namespace) -> None:
    """Raise InputError for two files that are written and have one path."""
    seen: dict[str, str] = {}
    for option, path in {"--output": args.output, "--latest": args.latest, **descriptions(args)}.items():
        if path not in (None, "", "-") and (other := seen.setdefault(_real(path), option)) != option:
            raise InputError(f"{other} and {option} are both {path}: give them different names")


def refuse_read(spec: CommandSpec, args: argparse.Namespace, option: str, place: str) -> None:
    """Raise InputError for a file that an input would read once it is written."""
    for side in spec.sides:
        if (path := side.path(args)) and finds(path, of_run(place, 1)):
            raise InputError(f"{option}: --{side.path_option} {path} would read what is written to {place}: name another place")


def _real(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _check_report(path: str, follow: bool) -> None:
    if not path.endswith(".html"):
        raise InputError(f"--report: {path} must end in .html")
    if "://" not in path and (os.path.isdir(path) or not os.access(os.path.dirname(path) or os.curdir, os.W_OK)):
        raise InputError(f"--report: {path} cannot be written: name a file in a directory that is there")
    if follow:
        raise InputError("--report is of one run: leave it out with --follow")


def _refuse_streams(spec: CommandSpec, args: argparse.Namespace) -> None:
    inputs = ((side.path_option, side.path(args)) for side in spec.sides)
    for option, path in (*inputs, ("changes", args.changes), ("latest", args.latest)):
        if path == "-":
            raise InputError(f"--{option} - is for a run that stands alone: with --state-dir name a file or a folder")


def changes_pattern(place: str) -> str:
    """The path with a * for the number of the run that ``--changes`` means.

    Raises InputError for a name that is the same in every run.

    >>> changes_pattern("out/changes"), changes_pattern("out/c-*.jsonl.gz")
    ('out/changes/changes-*.jsonl', 'out/c-*.jsonl.gz')
    """
    folder, name = os.path.split(place)
    if "*" in folder or name.count("*") > 1:
        raise InputError(f"--changes: {place} has another * than one for the number of the run in the name of the file")
    if "*" in name:
        return place
    if os.path.isfile(place) or has_format(name) or has_format(os.path.splitext(name)[0]):
        raise InputError(
            f"--changes: {place} is one file, and each run writes another one: name a folder, or a file with a * in its name"
        )
    return os.path.join(place, "changes-*.jsonl")


def changes_as(args: argparse.Namespace) -> "As":
    """The form in which the changes of the result are written."""
    as_: As = args.output_records or "changes"
    return as_


def of_run(pattern: str, number: int) -> str:
    """The path of a run's changes.

    >>> of_run("out/changes-*.jsonl", 12)
    'out/changes-000012.jsonl'
    """
    return pattern.replace("*", f"{number:06d}")
