"""The abilities of Beam's runners, one line a runner, and the experiments by which a launcher states its own."""

from typing import Any, Final, NamedTuple

from apache_beam.options.pipeline_options import DebugOptions, DirectOptions, PortableOptions, StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection

ONE_MACHINE: Final = "beam_joins_one_machine"
"""The experiment of a launcher whose workers are all on this machine."""
READ_ONCE: Final = "beam_joins_blocks_are_read_once"
"""The experiment of a launcher whose runner computes no stage twice."""
_STREAMING: Final = "PrismRunner, or a Flink runner (PortableRunner with its job endpoint)"


class Abilities(NamedTuple):
    """The abilities of a runner.

    * ``in_memory``: its workers are on this machine, and it keeps the elements between stages in memory.
    * ``keeps_groups``: it hands elements from function to function, and keeps them only where they are grouped.
    * ``not_unbounded``, ``not_streaming``: why it cannot replay unbounded input, or any with ``--streaming``, as
      the end of a sentence that begins with the transform; empty where it can.
    * ``runs``: whether it runs a pipeline at all.
    """

    in_memory: bool = False
    keeps_groups: bool = False
    not_unbounded: str = ""
    not_streaming: str = ""
    runs: bool = True


LOCAL: Final = "LocalRunner"
"""The runner of this package."""
RUNNERS: Final = {
    "BundleBasedDirectRunner": Abilities(in_memory=True),
    "FnApiRunner": Abilities(in_memory=True),
    LOCAL: Abilities(in_memory=True, keeps_groups=True, not_unbounded="got unbounded input, and the LocalRunner reads bounded input:"),
    "PrismRunner": Abilities(in_memory=True),
    "RenderRunner": Abilities(runs=False),
    "SparkRunner": Abilities(
        not_unbounded="got unbounded input, which Beam's Spark runner does not read: read bounded pieces one after the other with"
        " --beam_joins_state, or",
        not_streaming="on Spark would mix up the state of keys with --streaming: leave --streaming out, and read bounded pieces one"
        " after the other with --beam_joins_state; or",
    ),
    "SwitchingDirectRunner": Abilities(
        in_memory=True, not_unbounded="got unbounded input, and the DirectRunner loses what comes behind timers:"
    ),
}
"""By the name of the class, of Beam or of this package; the nearest base class counts. A runner that is missing here can do all but
``in_memory``.
"""


def abilities(pipeline: Pipeline) -> Abilities:
    """The abilities of the runner of a pipeline."""
    classes = (each.__name__ for each in type(pipeline.runner).__mro__)
    return next((RUNNERS[name] for name in classes if name in RUNNERS), Abilities())


def require_able(transform: str, pcoll: PCollection[Any]) -> None:
    """Raise ``ValueError`` for input that the runner would not replay right."""
    able, streaming = abilities(pcoll.pipeline), pcoll.pipeline.options.view_as(StandardOptions).streaming
    if reason := (streaming and able.not_streaming) or (not pcoll.is_bounded and able.not_unbounded):
        raise ValueError(f"{transform} {reason} use {_STREAMING}")


def is_one_machine(pipeline: Pipeline) -> bool:
    """Whether all workers are on this machine."""
    if _says(pipeline, ONE_MACHINE):
        return True
    environment = pipeline.options.view_as(PortableOptions).environment_type
    return environment == "LOOPBACK" or (not environment and abilities(pipeline).in_memory)


def reads_once(pipeline: Pipeline) -> bool:
    """Whether no stage is computed twice."""
    if abilities(pipeline).in_memory:
        return not pipeline.options.view_as(DirectOptions).direct_runner_bundle_repeat
    return _says(pipeline, READ_ONCE)


def has_several_workers(pipeline: Pipeline) -> bool:
    """Whether the direct runner has several workers."""
    return bool(pipeline.options.view_as(DirectOptions).direct_num_workers != 1)


def _says(pipeline: Pipeline, experiment: str) -> bool:
    return bool(pipeline.options.view_as(DebugOptions).lookup_experiment(experiment))
