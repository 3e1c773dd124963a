"""``assert_that`` without a shuffle: where a pipeline runs in the process of the test, what it asserts is
compared once it has run.

Beam's own groups all elements in the pipeline, which costs several stages; the tests have hundreds. Other
runners keep it.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.testing import util

Matcher = Callable[[Sequence[Any]], None]
_assert_that, _run = util.assert_that, beam.Pipeline.run
_NUMBERS: Final = itertools.count()
_SEEN: Final[defaultdict[int, list[Any]]] = defaultdict(list)
_ASSERTED: Final = "_asserted_when_it_has_run"


def quick_asserts() -> None:
    """Put it in the place of Beam's, in modules that are imported from now on."""
    util.assert_that = assert_that_once_it_has_run
    beam.Pipeline.run = _run_and_compare


def assert_that_once_it_has_run(actual: Any, matcher: Matcher, label: str = "assert_that", **options: Any) -> None:
    pipeline = actual.pipeline
    direct = pipeline.options.view_as(DirectOptions)
    in_process = isinstance(pipeline.runner, SwitchingDirectRunner) and direct.direct_running_mode == "in_memory"
    if options or not in_process or direct.direct_num_workers != 1 or isinstance(matcher, util._EqualToPerWindowMatcher):
        _assert_that(actual, matcher, label, **options)
        return
    if getattr(pipeline, "result", None):
        raise RuntimeError("the pipeline has run: assert within its block")
    number = next(_NUMBERS)
    _ = actual | f"{label} {number}" >> beam.Map(_see, number)
    vars(pipeline).setdefault(_ASSERTED, []).append((number, label, matcher))


def _see(element: Any, number: int) -> None:
    _SEEN[number].append(element)


def _run_and_compare(self: beam.Pipeline, *arguments: Any, **options: Any) -> Any:
    result = _run(self, *arguments, **options)
    for number, label, matcher in vars(self).pop(_ASSERTED, []):
        try:
            matcher(_SEEN.pop(number, []))
        except util.BeamAssertException as error:
            raise util.BeamAssertException(f"{label}: {error}") from error
    return result
