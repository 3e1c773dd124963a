"""Parses the command lines of jobs, passes Beam's options on, and reports a failure in one sentence.

Beam, whose import takes a second, is imported only when a run begins, or to tell its options from unknown
ones.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from beam_joins import FunctionFailed
from beam_joins.errors import InputError, OutputError, Unavailable
from beam_joins.pipelines.base.garbage_collection import uncollected_import
from beam_joins.pipelines.base.input_error import exception_in, input_error_in, os_sentence
from beam_joins.pipelines.commands.options_file import options_in
from beam_joins.pipelines.commands.program import Parser
from beam_joins.pipelines.runners.job_failure import JobFailed
from beam_joins.pipelines.runners.runner import LOCAL
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

FAILED: Final = 1
WRONG_INPUT: Final = 2
_PASSWORD: Final = re.compile(r"(?<=://)([^\s:@/]*):[^\s@/]*(?=@)")


def parse_known(parser: Parser, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and those that are Beam's, from a file and from the command line; exits with code 2
    for an option that is neither.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    files = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_options_file(files)
    try:
        for path in reversed(files.parse_known_args(arguments)[0].options):
            arguments = [*options_in(path, parser, lambda: _beams(parser.prog)._option_string_actions), *arguments]
    except argparse.ArgumentError:
        pass  # the parser says it
    except InputError as error:
        parser.exit(WRONG_INPUT, f"{parser.prog}: {error}\n")
    args, rest = parser.parse_known_args(arguments)
    if rest and (unknown := (beams := _beams(parser.prog)).parse_known_args(rest)[1]):
        shown = _PASSWORD.sub(r"\1", " ".join(unknown))
        about = "see --help; Beam options keep Beam's spelling, as in --job_name"
        parser.error_unknown(unknown[0], shown, about, beams._option_string_actions)
    return args, rest


def add_options_file(group: Any) -> None:
    """Add the option of files with options."""
    group.add_argument(
        "--options",
        metavar="FILE",
        action="append",
        default=[],
        help='a TOML file with options, as in left-key = "id"; those of the command line win, and of several files those of the later',
    )


def add_runner(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that run a pipeline: the file with options, and the runner."""
    add_options_file(parser)
    beam = parser.add_argument_group("runner", "Beam options are passed on; without any, the job runs in this process.")
    beam.add_argument("--runner", metavar="NAME", help="LocalRunner (default), SparkRunner, or another of Beam's")


def _beams(prog: str) -> Parser:
    """A parser of the options that are Beam's, and ours of pipelines."""
    with uncollected_import():
        from apache_beam.options.pipeline_options import PipelineOptions

        from beam_joins.pipelines.runners.launches import OPTIONS
        from beam_joins.transforms.connect.runs import ReplayOptions

    # two classes of options may declare the same one
    beams = Parser(prog=prog, add_help=False, conflict_handler="resolve")
    options: Any
    for options in {*_all_subclasses(PipelineOptions), *OPTIONS, ReplayOptions}:
        options._add_argparse_args(beams)
    return beams


def beam_options(runner: str | None, rest: Sequence[str]) -> "PipelineOptions":
    """Beam's options, with a runner that is always the same; Beam's file systems have them from now on.

    >>> [beam_options(name, []).get_all_options()["runner"] for name in (None, "DirectRunner")]
    ['beam_joins.LocalRunner', 'FnApiRunner']
    """
    with uncollected_import():
        from apache_beam.io.filesystems import FileSystems

        from beam_joins.transforms.connect.runs import KeptViews

    names = {None: LOCAL, "LocalRunner": LOCAL, "DirectRunner": "FnApiRunner"}  # of its three engines Beam takes whichever it finds
    options = KeptViews(list(rest), runner=names.get(runner, runner))
    FileSystems.set_options(options)  # inputs are looked at before there is a pipeline
    return options


_MADE_IT_FAIL: Final[dict[str, Callable[[str], tuple[object, int]]]] = {
    "FunctionFailed": lambda sentence: (FunctionFailed(sentence), FAILED),
    "StateRefused": lambda sentence: (sentence, WRONG_INPUT),
    "CorruptData": lambda sentence: (sentence, WRONG_INPUT),
}
"""The error for the user and the exit code, by the name of a worker's exception."""


def sentence_and_code(error: BaseException) -> tuple[object, int]:
    """The sentence on an error for the user, and the exit code; raises the error itself if nothing explains it."""
    if (wrong := input_error_in(error)) is not None:
        return wrong, FAILED if isinstance(wrong, OutputError | Unavailable) else WRONG_INPUT
    if isinstance(error, RunnerSetupError):
        return error, WRONG_INPUT
    if (failure := exception_in(error, _MADE_IT_FAIL)) is not None:
        return failure
    if isinstance(error, JobFailed):
        return error, FAILED
    if isinstance(error, OSError):
        return os_sentence(str(error.filename), error) if error.filename else error, FAILED
    raise error


def _all_subclasses(cls: type[Any]) -> list[type[Any]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_all_subclasses(sub))]
