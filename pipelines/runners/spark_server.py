"""Beam's job server for Spark, with the Spark of PySpark, on a local or named master."""

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from beam_joins.cores import usable_cores
from beam_joins.pipelines.runners.master import Master
from beam_joins.pipelines.runners.runner import Runner, ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

CHOICES: Final = "local[*], local[N] or spark://HOST:PORT"
_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)\])?")
_CLUSTER = re.compile(r"spark://([^/:,\s]+):(\d+)")
# Java's own serialization cannot write to disk what Beam keeps of a stage with several outputs. No element
# may be larger than the buffer.
_SERIALIZATION = (
    "-Dspark.serializer=org.apache.spark.serializer.KryoSerializer",
    "-Dspark.kryo.registrator=org.apache.beam.runners.spark.coders.SparkRunnerKryoRegistrator",
    "-Dspark.kryoserializer.buffer.max=2047m",
)
_HERE_ONLY = ("-Dspark.driver.host=127.0.0.1", "-Dspark.driver.bindAddress=127.0.0.1")

# What Spark opens for itself on Java 17 (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = (
    "java.base/java.lang java.base/java.lang.invoke java.base/java.lang.reflect java.base/java.io java.base/java.net "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic "
    "java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action "
    "java.base/sun.util.calendar java.security.jgss/sun.security.krb5"
)

# Before Spark has configured logging, Beam's server would not even say its port.
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_OUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


def spark_master(url: str) -> Master:
    """Read a master URL; `local[*]` becomes the number of cores that this process may use.

    Raises RunnerSetupError that lists the choices.

    >>> spark_master("local[2]").cores
    2
    >>> spark_master("spark://localhost:7077").host
    'localhost'
    """
    local, cluster = _LOCAL.fullmatch(url), _CLUSTER.fullmatch(url)
    if local:
        # A number, as Beam takes only that for local and would ship all its jars for a star.
        cores = usable_cores() if local[1] == "*" else int(local[1] or 1)
        return Master(f"local[{cores}]", cores=cores)
    if cluster:
        return Master(url, host=cluster[1], port=int(cluster[2]))
    raise RunnerSetupError(f"--spark_master_url={url} is not one of {CHOICES}.")


def spark_jars() -> list[Path]:
    """Spark's own jars, as PySpark brings them. Raises RunnerSetupError when PySpark is absent or not 3.5."""
    spec = find_spec("pyspark")  # its import takes a while, and brings nothing else that is needed
    if spec is None or not spec.submodule_search_locations:
        raise RunnerSetupError("PySpark is not installed; pip install 'pyspark>=3.5,<4'.")
    installed = version("pyspark")
    if not installed.startswith("3.5."):
        raise RunnerSetupError(
            f"PySpark {installed} is installed but Beam's runner is built for Spark 3.5; pip install 'pyspark>=3.5,<4'."
        )
    return sorted(Path(spec.submodule_search_locations[0], "jars").glob("*.jar"))


def _arguments(options: ServerOptions, directory: Path) -> tuple[list[str], list[str]]:
    logging = directory / "log4j2.properties"
    logging.write_text(_LOG4J, "utf-8")
    jvm = [
        "-Dspark.ui.enabled=false",
        *(_HERE_ONLY if options.master.cores is not None else ()),
        *_SERIALIZATION,
        *(f"-D{setting}" for setting in options.settings),
        f"-Dspark.local.dir={directory}",
        f"-Dlog4j2.configurationFile={logging}",
    ]
    return jvm, ["--spark-master-url", options.master.url]


SPARK: Final = Runner(
    name="Spark",
    main_class="org.apache.beam.runners.spark.SparkJobServerDriver",
    opened=_OPENED,
    master_option="--spark_master_url",
    memory_option="--driver_memory",
    log_option="--spark_log",
    provided=spark_jars,
    arguments=_arguments,
    idle_seconds=1,  # it makes each stage anew for every partition, and does not come back to it
    # Beam gives partitions to workers in turn, busy or not: with as many as cores one of them often has two, and another none
    spare_workers=1,
    version="3.5 for Scala 2.12",
    refused=b"InvalidClassException: org.apache.spark.",
)
