"""What the engine does not take as input, refused when the pipeline is built."""

from typing import Any

from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindows

_STREAMING = "PrismRunner, or a Flink runner (PortableRunner with its job endpoint)"


def require_global(transform: str, *pcolls: PCollection[Any]) -> None:
    """Raise ``ValueError`` for an input that the engine cannot replay: a windowed one, or one that its runner would not replay right."""
    for pcoll in pcolls:
        if not isinstance(pcoll, PCollection):
            raise ValueError(f"{transform} takes PCollections, not {type(pcoll).__name__}")
        if not isinstance(pcoll.windowing.windowfn, GlobalWindows):
            raise ValueError(
                f"{transform} needs its input in the global window, not in {pcoll.windowing.windowfn}:"
                " apply beam.WindowInto(beam.window.GlobalWindows()) before it"
            )
        _require_runner(transform, pcoll)


def require_bounded(transform: str, remedy: str, *pcolls: PCollection[Any]) -> None:
    """Raise ``ValueError``, which ends with the ``remedy``, for unbounded input."""
    if not all(pcoll.is_bounded for pcoll in pcolls):
        raise ValueError(f"{transform} takes bounded input only, as unbounded input has no end: {remedy}")


def _require_runner(transform: str, pcoll: PCollection[Any]) -> None:
    runner = type(pcoll.pipeline.runner).__name__
    if runner == "SparkRunner" and pcoll.pipeline.options.view_as(StandardOptions).streaming:
        raise ValueError(
            f"{transform} on Spark would mix up the state of keys with --streaming: leave --streaming out, and read bounded pieces one after"
            f" the other with --beam_joins_state; or use {_STREAMING}"
        )
    if pcoll.is_bounded:
        return
    if runner == "SparkRunner":
        raise ValueError(
            f"{transform} got unbounded input, which Beam's Spark runner does not read: read bounded pieces one after the other with"
            f" --beam_joins_state, or use {_STREAMING}"
        )
    if runner in ("SwitchingDirectRunner", "DirectRunner"):
        raise ValueError(f"{transform} got unbounded input, and the DirectRunner loses what comes behind timers: use {_STREAMING}")
