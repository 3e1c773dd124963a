"""Reads and checks the pipeline options of a run on Flink."""

import argparse
import re
from pathlib import Path

from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions

from beam_joins.pipelines.runners.flink_server import FLINK, flink_master
from beam_joins.pipelines.runners.run_options import server_options
from beam_joins.pipelines.runners.runner import ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_LEAST_IDLE_MS = 60_000
_BUNDLE_MS = 20
_KEY_GROUPS = 8
_BACKENDS = ("hashmap", "rocksdb")
_RETENTIONS = ("keep", "delete")

# Results wait in buffers at each shuffle, for a tenth of a second by default.
_PROMPT = "execution.buffer-timeout.interval=5ms"
# With checkpoints, a job whose worker or function fails goes on from the last one, three times within a
# minute.
_RESTARTS = (
    "restart-strategy.type=failure-rate",
    "restart-strategy.failure-rate.max-failures-per-interval=3",
    "restart-strategy.failure-rate.failure-rate-interval=1 min",
    "restart-strategy.failure-rate.delay=1 s",
)


class FlinkOptions(PipelineOptions):
    """Options of `--runner=FlinkRunner`, besides Beam's own `--flink_master`, `--parallelism`, `--environment_type`
    and the like.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--checkpointing_interval",
            type=int,
            metavar="MS",
            help="Milliseconds between two checkpoints of a streaming job. Default: none, and a job that fails starts anew.",
        )
        parser.add_argument(
            "--flink_checkpoints",
            metavar="DIR",
            help="Directory for checkpoints, a path or a URL that all machines of the cluster reach. Default: a new directory for "
            "temporary files, which is removed when the run succeeds, or what the cluster is configured with.",
        )
        parser.add_argument(
            "--checkpoint_retention",
            choices=_RETENTIONS,
            default="keep",
            help="What becomes of the newest checkpoint of a job that fails or is cancelled: keep (the default) or delete.",
        )
        parser.add_argument("--flink_state_backend", help="Where state lives: hashmap (the heap, the default) or rocksdb (disk).")
        parser.add_argument("--savepoint_path", metavar="DIR", help="The savepoint or checkpoint that the job continues from.")
        parser.add_argument(
            "--flink_memory",
            help="Heap of Flink's JVM, which is the whole of a local cluster, such as 2g. Default: half of this machine's memory.",
        )
        parser.add_argument("--flink_conf", action="append", metavar="KEY=VALUE", help="A setting of Flink; may be repeated.")
        parser.add_argument(
            "--flink_log",
            help="File for the output of Flink, Beam's job server and the Python workers. Default: a new file in the "
            "directory for temporary files; its path is printed.",
        )
        parser.add_argument(
            "--finish_bundle_before_checkpointing",
            action="store_true",
            help="Always on: without it, Beam's runner loses elements at checkpoints.",
        )
        parser.add_argument(
            "--max_bundle_time_mills",
            type=int,
            metavar="MS",
            help="Milliseconds after which elements go on to the next stage; a source is asked for more at the same "
            f"pace. Default: {_BUNDLE_MS}.",
        )
        parser.add_argument(
            "--shutdown_sources_after_idle_ms",
            type=int,
            metavar="MS",
            help="End a streaming job whose sources have been idle for so long; a minute at least, as a source that "
            "has not begun is idle.",
        )


def _settings(asked: FlinkOptions) -> list[str]:
    """The settings of Flink for the options; raises RunnerSetupError for an option that cannot be."""
    settings = [_PROMPT]
    if asked.checkpointing_interval is not None:
        if asked.checkpointing_interval < 1:
            raise RunnerSetupError(
                f"--checkpointing_interval={asked.checkpointing_interval} is not a number of milliseconds, 1 or more."
            )
        settings += _RESTARTS
        if asked.checkpoint_retention == "keep":
            settings.append("execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION")
    if asked.shutdown_sources_after_idle_ms is not None and asked.shutdown_sources_after_idle_ms < _LEAST_IDLE_MS:
        raise RunnerSetupError(
            f"--shutdown_sources_after_idle_ms={asked.shutdown_sources_after_idle_ms} would end a job before its sources have begun; "
            f"give {_LEAST_IDLE_MS} or more, or leave it out and end the job with FlinkJob.stop()."
        )
    if asked.flink_state_backend:
        if asked.flink_state_backend not in _BACKENDS:
            raise RunnerSetupError(f"--flink_state_backend={asked.flink_state_backend} is not one of {' and '.join(_BACKENDS)}.")
        settings.append(f"state.backend.type={asked.flink_state_backend}")
    if asked.flink_checkpoints:
        settings.append(f"state.checkpoints.dir={location(asked.flink_checkpoints)}")
    if asked.savepoint_path:
        settings.append(f"execution.savepoint.path={location(asked.savepoint_path)}")
    for pair in asked.flink_conf or ():
        if not re.match(r"[^=\s]+=", pair):
            raise RunnerSetupError(f"--flink_conf={pair} is not of the form KEY=VALUE.")
    return [*settings, *(asked.flink_conf or ())]


def location(path: str) -> str:
    """A directory as Flink takes it: a path of this machine becomes a URL.

    >>> location("/data/checkpoints"), location("s3://bucket/checkpoints")
    ('file:///data/checkpoints', 's3://bucket/checkpoints')
    """
    return path if re.match(r"\w+:", path) else Path(path).absolute().as_uri()


def flink_server(options: PipelineOptions) -> ServerOptions:
    """The options of Flink's job server; adds those pipeline options without which Flink loses data."""
    flink, asked = options.view_as(FlinkRunnerOptions), options.view_as(FlinkOptions)
    master, settings = flink_master(str(flink.flink_master)), _settings(asked)
    flink.flink_master = master.url
    asked.finish_bundle_before_checkpointing = True
    if asked.max_bundle_time_mills is None:
        asked.max_bundle_time_mills = _BUNDLE_MS
    if asked.savepoint_path:
        asked.savepoint_path = location(asked.savepoint_path)
    if flink.parallelism < 1 and master.cores is not None:
        flink.parallelism = master.cores
    if flink.max_parallelism < 1 and master.cores is not None:
        # each time that a source gives its rest back Beam's runner has a new state, with a map for each key group
        flink.max_parallelism = max(_KEY_GROUPS, flink.parallelism)
    return server_options(options, FLINK, master, memory=asked.flink_memory, settings=settings, log=asked.flink_log)
