"""The runners whose job servers are started here, Spark and Flink, and the pipeline options of all of them.

With a local master (`--spark_master_url=local[*]`, no `--flink_master`) all runs on this machine. With `spark://HOST:PORT` the
driver runs here and the executors on the cluster; they are sent all jars, and need worker pools with the same Python packages.
With `--flink_master=HOST:PORT` jobs go to a cluster of Flink, which is sent all jars.
"""

from typing import Final

from apache_beam.options.pipeline_options import FlinkRunnerOptions, SparkRunnerOptions

from beam_joins.pipelines.runners.flink_checkpoints import Checkpoints
from beam_joins.pipelines.runners.flink_job import flink_version
from beam_joins.pipelines.runners.flink_options import FlinkOptions, flink_server
from beam_joins.pipelines.runners.flink_server import FLINK
from beam_joins.pipelines.runners.portable_run import Launch
from beam_joins.pipelines.runners.run_options import WorkerOptions
from beam_joins.pipelines.runners.spark_options import SparkOptions, spark_server
from beam_joins.pipelines.runners.spark_server import SPARK

ON_SPARK: Final = Launch(SPARK, SparkRunnerOptions, SparkOptions, spark_server)
ON_FLINK: Final = Launch(FLINK, FlinkRunnerOptions, FlinkOptions, flink_server, Checkpoints, flink_version)
LAUNCHES: Final = (ON_SPARK, ON_FLINK)
OPTIONS: Final = (*(launch.options for launch in LAUNCHES), WorkerOptions)
