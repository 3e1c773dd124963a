"""Pipeline options that runs on Spark and on Flink share."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from apache_beam.options.pipeline_options import JobServerOptions, PipelineOptions, PortableOptions, SetupOptions

from beam_joins.pipelines.runners.jars import CACHE
from beam_joins.pipelines.runners.master import Master
from beam_joins.pipelines.runners.runner import HEAP, START_POOL, Runner, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError


class WorkerOptions(PipelineOptions):
    """Options of the Python worker processes, on any runner that the launcher starts."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--python_workers",
            type=int,
            help="Number of Python worker processes (per executor of Spark, per TaskManager of Flink; on the LocalRunner 1 is "
            "this process). Default: the cores of a local master, on Spark one more, else 1; on the LocalRunner the cores.",
        )


def python_workers(options: PipelineOptions, runner: Runner, master: Master) -> int:
    """The number of Python workers per executor: the option's; else one for each core of a local master, and
    the runner's spare ones; else 1.
    """
    asked = options.view_as(WorkerOptions).python_workers
    if asked is not None and asked < 1:
        raise RunnerSetupError(f"--python_workers={asked} is not a number of processes, which is 1 or more.")
    beams = int(options.view_as(PortableOptions).sdk_worker_parallelism)
    if asked or beams > 1:
        return asked or beams
    cores = master.cores or 1
    return cores + runner.spare_workers if cores > 1 else cores


def needs_pool(portable: PortableOptions, runner: Runner, master: Master) -> bool:
    """Whether the launcher starts the Python workers; raises RunnerSetupError for a cluster elsewhere without
    any.
    """
    kind = portable.environment_type
    if kind and (kind != "EXTERNAL" or portable.environment_config or portable.environment_options):
        return False
    if not master.is_here():
        raise RunnerSetupError(
            f"The {runner.name} master {master.host} is another machine: on each machine of its workers run '{START_POOL}50000', "
            f"and here add --environment_type=EXTERNAL --environment_config=localhost:50000."
        )
    return True


def server_options(
    options: PipelineOptions, runner: Runner, master: Master, *, memory: str | None, settings: Sequence[str], log: str | None
) -> ServerOptions:
    """The options of a job server; without `memory` it gets half of this machine's.

    Raises RunnerSetupError for an amount of memory that is not of its form.
    """
    server, heap = options.view_as(JobServerOptions), HEAP
    if memory:
        if not re.fullmatch(r"[1-9]\d*[kmgt]", memory.lower()):
            raise RunnerSetupError(f"{runner.memory_option}={memory} is not a number with a unit k, m, g or t, such as 2g.")
        heap = f"-Xmx{memory.lower()}"
    return ServerOptions(
        runner=runner,
        master=master,
        jvm=(heap, *(server.job_server_jvm_properties or ())),
        settings=tuple(settings),
        java=server.job_server_java_launcher,
        cache=Path(server.jar_cache_dir) if server.jar_cache_dir else CACHE,
        # an option of newer Beam versions only
        repository=getattr(options.view_as(SetupOptions), "maven_repository_url", None),
        log=log,
    )
