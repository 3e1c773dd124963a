"""Tells at the end of a run how many records each transform has dropped, where nobody takes them as an output."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from apache_beam.metrics import MetricsFilter
from apache_beam.pipeline import Pipeline

from beam_joins.transforms.engine.blocks.metrics import NAMESPACE, REASONS, dropped
from beam_joins.transforms.engine.construction.run_hooks import around_run

_TRANSFORMS: Final = "_beam_joins_transforms_that_drop"
_TOLD: Final = "_beam_joins_told"
_REASONS: Final = {dropped(reason).name: reason for reason in REASONS if reason != "late_applied"}  # its rows are in the table
_log: Final = logging.getLogger("beam_joins")


def tell_drops(pipeline: Pipeline, label: str, *, are_taken: bool) -> None:
    """Have a warning say at the end of each run how many records the transform of this full label has dropped, with the reasons,
    unless they ``are_taken`` as an output.
    """
    if (transforms := getattr(pipeline, _TRANSFORMS, None)) is None:
        setattr(pipeline, _TRANSFORMS, transforms := dict[str, bool]())
        around_run(pipeline, lambda: None, partial(_tell, transforms))
    if not any(label.startswith(f"{outer}/") for outer in transforms):  # else its drops are among those of the outer one
        transforms[label] = are_taken


def tell_no_drops(pipeline: Pipeline) -> None:
    """Have no warnings about a pipeline to which no transform has been applied: its summary counts what is dropped."""
    setattr(pipeline, _TRANSFORMS, dict[str, bool]())


def _tell(transforms: Mapping[str, bool], result: Any) -> None:
    if result is None or getattr(result, _TOLD, False):
        return
    setattr(result, _TOLD, True)
    for label, reasons in drops_of(result, list(transforms)).items():
        if (sentence := drops_in_words(label, reasons)) is not None and not transforms.get(label, True):
            _log.warning("%s: with_outputs() gives them as outputs", sentence)


def drops_of(result: Any, labels: Sequence[str]) -> dict[str, Counter[str]]:
    """The numbers of records that a run has dropped, by the labels of transforms and by reason; none where its runner does not say."""
    try:
        counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    except Exception as error:  # the run has succeeded, whatever its runner says of metrics
        _log.debug("no metrics of the run: %s", error)
        return {}
    sums: dict[str, Counter[str]] = {}
    for each in counters:
        if (reason := _REASONS.get(each.key.metric.name)) is not None:
            sums.setdefault(step_named(each.key.step, labels), Counter())[reason] += each.result or 0
    return sums


def drops_in_words(label: str, reasons: Mapping[str, int]) -> str | None:
    """The sentence on the records that a transform has dropped, by the reasons; ``None`` if none is lost.

    >>> drops_in_words("orders", {"null_key": 1200, "late_applied": 3})
    'orders has dropped 1,200 records (null_key 1,200)'
    """
    lost = {reason: records for reason, records in sorted(reasons.items()) if records and reason in _REASONS.values()}
    if not lost:
        return None
    total = sum(lost.values())
    shown = ", ".join(f"{reason} {records:,}" for reason, records in lost.items())
    return f"{label} has dropped {total:,} {'record' if total == 1 else 'records'} ({shown})"


def step_named(label_of_runner: str, steps: Sequence[str]) -> str:
    """The step, among these and with the longest label, that a runner's name of a step is within; some runners write Beam's
    identifier in place of the label.

    >>> on_spark = "ref_AppliedPTransform_Left-rows-Replay-Run_24"
    >>> step_named("Left rows/Replay/Run", ["Left rows"]), step_named(on_spark, ["Left", "Left rows"])
    ('Left rows', 'Left rows')
    """
    label = label_of_runner.removeprefix("ref_AppliedPTransform_")
    meant = [step for step in steps if label.startswith((f"{step}/", f"{re.sub('[^A-Za-z0-9]+', '-', step)}-"))]
    return max(meant, key=len, default=label_of_runner.split("/", maxsplit=1)[0])
