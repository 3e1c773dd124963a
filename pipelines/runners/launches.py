"""The runners whose job servers are started here, for commands, and the pipeline options of all of them."""

from typing import Final

from beam_joins.pipelines.runners.flink import ON_FLINK
from beam_joins.pipelines.runners.run_options import WorkerOptions
from beam_joins.pipelines.runners.spark import ON_SPARK

LAUNCHES: Final = (ON_SPARK, ON_FLINK)
OPTIONS: Final = (*(launch.options for launch in LAUNCHES), WorkerOptions)
