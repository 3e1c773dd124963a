"""Reads and checks the pipeline options of a run on Spark."""

import argparse
import re
import sys
from typing import Final

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, PortableOptions, SparkRunnerOptions

from beam_joins.pipelines.runners.run_options import server_options
from beam_joins.pipelines.runners.runner import ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError
from beam_joins.pipelines.runners.spark_server import SPARK, spark_master
from beam_joins.transforms.connect.runs import READ_ONCE

_ENVIRONMENT_CACHE_MS = 5_000
_STORAGE_LEVELS: Final = ("DISK_ONLY", "MEMORY_AND_DISK", "MEMORY_AND_DISK_SER", "MEMORY_ONLY", "MEMORY_ONLY_SER")


class SparkOptions(PipelineOptions):
    """Options of `--runner=SparkRunner`, besides Beam's own `--spark_master_url`, `--environment_type` and the like."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--driver_memory",
            help="Memory of Spark's driver, which is all of Spark with a local master, such as 2g or 512m. "
            "Default: half of this machine's.",
        )
        parser.add_argument(
            "--spark_conf",
            action="append",
            metavar="KEY=VALUE",
            help="A setting of Spark, such as spark.default.parallelism=8; may be repeated.",
        )
        parser.add_argument(
            "--storage_level",
            choices=_STORAGE_LEVELS,
            help="Where Spark keeps what several stages read. With MEMORY_ONLY, which is Beam's default, it computes "
            "again what does not fit "
            f"into memory, and counts it again. Default: {_STORAGE_LEVELS[0]}.",
        )
        parser.add_argument(
            "--spark_log",
            help="File for the output of Spark, Beam's job server and the Python workers. Default: a new file in the "
            "directory for temporary files; its path is printed.",
        )


def master_url(options: PipelineOptions) -> str:
    """The master of the options, by default all cores of this machine."""
    url = str(options.view_as(SparkRunnerOptions).spark_master_url)
    # Beam's default is four threads on any machine; take all cores unless someone has asked for just that.
    flags = getattr(options, "_flags", None)  # None: those of the process
    asked = any(str(flag).startswith("--spark_master_url") for flag in (sys.argv if flags is None else flags))
    return url if asked or url != "local[4]" else "local[*]"


def spark_server(options: PipelineOptions) -> ServerOptions:
    """The options of Spark's job server; sets `--spark_master_url` to its master.

    Raises RunnerSetupError for an option that is not of its form.
    """
    asked, master = options.view_as(SparkOptions), spark_master(master_url(options))
    for pair in asked.spark_conf or ():
        if not re.match(r"spark\.[^=\s]+=", pair):
            raise RunnerSetupError(f"--spark_conf={pair} is not of the form spark.KEY=VALUE.")
    options.view_as(SparkRunnerOptions).spark_master_url = master.url
    # not the option's own default, which a job server with other settings would get too
    asked.storage_level = asked.storage_level or _STORAGE_LEVELS[0]
    if asked.storage_level != "MEMORY_ONLY":
        options.view_as(DebugOptions).add_experiment(READ_ONCE)
    # Spark gives workers back after every stage, and asks for new ones in the next job. Flink keeps its own, and
    # must not be given a dead one again when it restarts a job.
    portable = options.view_as(PortableOptions)
    portable.environment_cache_millis = int(portable.environment_cache_millis) or _ENVIRONMENT_CACHE_MS
    return server_options(options, SPARK, master, memory=asked.driver_memory, settings=asked.spark_conf or (), log=asked.spark_log)
