"""What the command lines of jobs have in common: Beam's options passed on, and failures said in one sentence."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.command.failed_function import failed_function_in
from beam_joins.pipelines.command.input_error import input_error_in
from beam_joins.pipelines.spark import SparkJobFailed, SparkOptions, SparkSetupError

FAILED: Final = 1
WRONG_INPUT: Final = 2
ENGINE: Final = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def parse_known(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and those that are Beam's; exits with code 2 for an option that is neither."""
    own, rest = parser.parse_known_args(argv)
    # two classes of options may declare the same one
    beams = argparse.ArgumentParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    options: Any
    for options in {*_all_subclasses(PipelineOptions), SparkOptions}:
        options._add_argparse_args(beams)
    unknown: list[str] = beams.parse_known_args(rest)[1]
    if unknown:
        parser.error(f"unknown option: {' '.join(unknown)} (see --help; options of Beam's are written as Beam does)")
    return own, rest


def beam_options(runner: str | None, rest: Sequence[str]) -> PipelineOptions:
    """Beam's options, with a runner that is always the same.

    >>> beam_options("DirectRunner", []).get_all_options()["runner"] == ENGINE
    True
    """
    # What Beam calls DirectRunner is one of three engines, whichever it finds; this is the one for bounded input.
    return PipelineOptions(list(rest), runner=ENGINE if runner in (None, "DirectRunner") else runner)


def said(error: BaseException) -> tuple[BaseException, int]:
    """What to say of an error in one sentence, and the exit code; raises the error itself if it is ours to mend."""
    wrong = input_error_in(error)
    if wrong is not None:
        return wrong, WRONG_INPUT
    failed = failed_function_in(error)
    if failed is not None:
        return failed, FAILED
    if isinstance(error, SparkSetupError) or "Unexpected pipeline runner" in str(error):
        return error, WRONG_INPUT
    if isinstance(error, SparkJobFailed | OSError):
        return error, FAILED
    raise error


def _all_subclasses(cls: type[Any]) -> list[type[Any]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_all_subclasses(sub))]
