"""The options of a run on Spark: what may be asked for, and what that means."""

import argparse
import re
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import (
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
)

from beam_joins.pipelines.launcher.jars import CACHE
from beam_joins.pipelines.launcher.job_server import ServerOptions
from beam_joins.pipelines.launcher.master import Master
from beam_joins.pipelines.launcher.setup_error import SparkSetupError
from beam_joins.pipelines.launcher.warm_start import HEAP


class SparkOptions(PipelineOptions):
    """Options of `spark_runner`, besides Beam's own `--spark_master_url`, `--environment_type` and the like."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--driver_memory",
            help="Memory of Spark's driver, which is all of Spark with a local master, such as 2g or 512m. "
            "Default: half of this machine's.",
        )
        parser.add_argument(
            "--python_workers",
            type=int,
            help="Number of Python worker processes (per executor). Default: the cores of a local master, else 1.",
        )
        parser.add_argument(
            "--spark_conf",
            action="append",
            metavar="KEY=VALUE",
            help="A setting of Spark, such as spark.default.parallelism=8; may be repeated.",
        )
        parser.add_argument(
            "--spark_log",
            help="File for the output of Spark, Beam's job server and the Python workers. Default: a new file in the "
            "directory for temporary files; its path is printed.",
        )


def master_url(options: PipelineOptions) -> str:
    """The master that is meant: what was asked for, else all cores of this machine."""
    url = str(options.view_as(SparkRunnerOptions).spark_master_url)
    # Beam's default is four threads on any machine; take all cores unless someone has asked for just that.
    flags = getattr(options, "_flags", None)  # None: those of the process
    asked = any(str(flag).startswith("--spark_master_url") for flag in (sys.argv if flags is None else flags))
    return url if asked or url != "local[4]" else "local[*]"


def python_workers(asked: int | None, portable: PortableOptions, master: Master) -> int:
    """The number of Python worker processes per executor: asked for, or as many as a local master has cores."""
    if asked is not None and asked < 1:
        raise SparkSetupError(f"--python_workers={asked} is not a number of processes, which is 1 or more.")
    beams = int(portable.sdk_worker_parallelism)
    return asked or (beams if beams > 1 else master.cores or 1)


def needs_pool(portable: PortableOptions, master: Master) -> bool:
    """Whether the Python workers are ours to start; raises SparkSetupError for a cluster elsewhere without any."""
    kind = portable.environment_type
    if kind and (kind != "EXTERNAL" or portable.environment_config or portable.environment_options):
        return False
    if not master.is_here():
        raise SparkSetupError(
            f"The Spark master {master.host} is another machine: on each machine of its workers run 'python -m "
            f"apache_beam.runners.worker.worker_pool_main --service_port=50000', and here add "
            f"--environment_type=EXTERNAL --environment_config=localhost:50000."
        )
    return True


def server_options(options: PipelineOptions) -> ServerOptions:
    """What the job server is started with; raises SparkSetupError for an option that is not of its form."""
    asked, given = options.view_as(SparkOptions), options.view_as(JobServerOptions)
    memory = HEAP
    if asked.driver_memory:
        if not re.fullmatch(r"[1-9]\d*[kmgt]", asked.driver_memory.lower()):
            raise SparkSetupError(f"--driver_memory={asked.driver_memory} is not a number with a unit k, m, g or t, such as 2g.")
        memory = f"-Xmx{asked.driver_memory.lower()}"
    settings = asked.spark_conf or []
    for pair in settings:
        if not re.match(r"spark\.[^=\s]+=", pair):
            raise SparkSetupError(f"--spark_conf={pair} is not of the form spark.KEY=VALUE.")
    return ServerOptions(
        master=Master.parse(master_url(options)),
        jvm=(memory, *(f"-D{pair}" for pair in settings), *(given.job_server_jvm_properties or ())),
        java=given.job_server_java_launcher,
        cache=Path(given.jar_cache_dir) if given.jar_cache_dir else CACHE,
        # an option of newer Beam versions only
        repository=getattr(options.view_as(SetupOptions), "maven_repository_url", None),
    )
