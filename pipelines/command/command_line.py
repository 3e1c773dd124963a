"""What the command lines of jobs have in common: Beam's options passed on, and failures said in one sentence.

Beam, whose import takes a second, is imported only when a run begins, or to tell its options from unknown ones.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from beam_joins.pipelines.command.failed_function import failed_function_in
from beam_joins.pipelines.command.input_error import OutputError, input_error_in, os_sentence
from beam_joins.pipelines.command.refused_state import refused_state_in, unwritten_state_in
from beam_joins.pipelines.launcher.job_failure import JobFailed
from beam_joins.pipelines.launcher.setup_error import RunnerSetupError
from beam_joins.pipelines.launcher.warm_start import start_early

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

FAILED: Final = 1
WRONG_INPUT: Final = 2
ENGINE: Final = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def parse_known(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and those that are Beam's; exits with code 2 for an option that is neither."""
    own, rest = parser.parse_known_args(argv)
    start_early(own.runner, rest)
    if rest and (unknown := _unknown(rest)):
        parser.error(f"unknown option: {' '.join(unknown)} (see --help; options of Beam's are written as Beam does)")
    return own, rest


def _unknown(rest: Sequence[str]) -> list[str]:
    from apache_beam.options.pipeline_options import PipelineOptions

    from beam_joins.pipelines.launcher.flink_options import FlinkOptions
    from beam_joins.pipelines.launcher.run_options import WorkerOptions
    from beam_joins.pipelines.launcher.spark_options import SparkOptions
    from beam_joins.transforms.engine.replay_options import ReplayOptions

    # two classes of options may declare the same one
    beams = argparse.ArgumentParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    options: Any
    for options in {*_all_subclasses(PipelineOptions), SparkOptions, FlinkOptions, WorkerOptions, ReplayOptions}:
        options._add_argparse_args(beams)
    return beams.parse_known_args(rest)[1]


def beam_options(runner: str | None, rest: Sequence[str]) -> "PipelineOptions":
    """Beam's options, with a runner that is always the same; Beam's file systems have them from now on.

    >>> beam_options("DirectRunner", []).get_all_options()["runner"] == ENGINE
    True
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    # What Beam calls DirectRunner is one of three engines, whichever it finds; this is the one for bounded input.
    options = PipelineOptions(list(rest), runner=ENGINE if runner in (None, "DirectRunner") else runner)
    FileSystems.set_options(options)  # inputs are looked at before there is a pipeline
    return options


def said(error: BaseException) -> tuple[object, int]:
    """What to say of an error in one sentence, and the exit code; raises the error itself if nothing explains it."""
    for explanation in EXPLANATIONS:
        found = explanation(error)
        if found is not None:
            return found
    raise error


def _wrong_input(error: BaseException) -> tuple[object, int] | None:
    found = input_error_in(error)
    return None if found is None else (found, FAILED if isinstance(found, OutputError) else WRONG_INPUT)


def _wrong_runner(error: BaseException) -> tuple[object, int] | None:
    return (error, WRONG_INPUT) if isinstance(error, RunnerSetupError) else None


def _failed_function(error: BaseException) -> tuple[object, int] | None:
    found = failed_function_in(error)
    return None if found is None else (found, FAILED)


def _refused_state(error: BaseException) -> tuple[object, int] | None:
    found = refused_state_in(error)
    return None if found is None else (found, WRONG_INPUT)


def _unwritten_state(error: BaseException) -> tuple[object, int] | None:
    found = unwritten_state_in(error)
    return None if found is None else (found, FAILED)


def _failed_job(error: BaseException) -> tuple[object, int] | None:
    return (error, FAILED) if isinstance(error, JobFailed) else None


def _system(error: BaseException) -> tuple[object, int] | None:
    if not isinstance(error, OSError):
        return None
    return (os_sentence(str(error.filename), error) if error.filename else error), FAILED


EXPLANATIONS: Final[tuple[Callable[[BaseException], tuple[object, int] | None], ...]] = (
    _wrong_input,
    _wrong_runner,
    _failed_function,
    _refused_state,
    _unwritten_state,
    _failed_job,
    _system,
)
"""Each says what an error means and gives the exit code, or None if it is not one of its own; the first that does counts."""


def _all_subclasses(cls: type[Any]) -> list[type[Any]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_all_subclasses(sub))]
