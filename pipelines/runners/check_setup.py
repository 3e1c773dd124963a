"""Checks the requirements of a runner before a run: Java, jars, a master, worker pools.

Nothing is started or fetched.
"""

import copy
import platform
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from beam_joins.pipelines.runners.jars import locked_jars
from beam_joins.pipelines.runners.java import java_launcher, major_version
from beam_joins.pipelines.runners.local_connections import no_proxy_here
from beam_joins.pipelines.runners.portable_run import Launch
from beam_joins.pipelines.runners.reachable import check_docker, check_job_endpoint, check_worker_pool
from beam_joins.pipelines.runners.run_options import needs_pool, python_workers
from beam_joins.pipelines.runners.runner import ServerOptions
from beam_joins.pipelines.runners.setup_error import RunnerSetupError

PACKAGES = ("apache-beam", "beam-joins", "pyarrow")
"""The packages that must have the same version on all machines of a cluster."""


def check_setup(options: PipelineOptions, *launches: Launch) -> Iterator[str]:
    """The requirements of the options' runner and which of them are installed, one line each.

    Raises RunnerSetupError, with all that is missing, at the end.
    """
    options = copy.deepcopy(options)
    launch = next((launch for launch in launches if launch.is_meant(options)), None)
    missing: list[str] = []

    def looked_at(look: Callable[[], str]) -> Iterator[str]:
        try:
            yield look()
        except RunnerSetupError as error:
            missing.append(str(error))

    yield f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in PACKAGES)}"
    with no_proxy_here():
        if launch is None:
            yield from looked_at(lambda: _endpoint(options))
        else:
            wanted = launch.server(options)
            for look in (_java, _jars, partial(_master, launch), lambda wanted: _workers(options, wanted)):
                yield from looked_at(lambda look=look: look(wanted))  # type: ignore[misc]
    if missing:
        raise RunnerSetupError(" ".join(missing))


def _endpoint(options: PipelineOptions) -> str:
    check_job_endpoint(options)
    endpoint = options.view_as(PortableOptions).job_endpoint
    return f"job server {endpoint} answers" if endpoint else "nothing else to be started"


def _java(wanted: ServerOptions) -> str:
    java = java_launcher(wanted.java)
    return f"Java {major_version(java)}, {java}"


def _jars(wanted: ServerOptions) -> str:
    runner, jars = wanted.runner, locked_jars(wanted.runner.slug)
    folder = wanted.cache / runner.slug
    present = sum((folder / jar.file_name).exists() for jar in jars)
    of_pyspark = f"{len(provided)} jars of PySpark {version('pyspark')}, " if (provided := runner.provided()) else ""
    fetched = (
        ""
        if present == len(jars)
        else f"; the others are fetched first, or by 'python -m beam_joins.pipelines.runners.jars {runner.slug}'"
    )
    return f"{of_pyspark}{present} of {len(jars)} jars of Beam's {runner.name} runner in {folder}{fetched}"


def _master(launch: Launch, wanted: ServerOptions) -> str:
    launch.check(wanted.master)
    return f"master {wanted.master.url}" + ("" if wanted.master.cores is not None else " answers")


def _workers(options: PipelineOptions, wanted: ServerOptions) -> str:
    portable = options.view_as(PortableOptions)
    count = python_workers(options, wanted.runner, wanted.master)
    if needs_pool(portable, wanted.runner, wanted.master):
        return f"{count} Python workers, forked by this program"
    if portable.environment_type == "DOCKER":
        check_docker()
    pool = portable.environment_config if portable.environment_type == "EXTERNAL" else None
    if pool is None:
        return f"{count} Python workers, by --environment_type={portable.environment_type}"
    if wanted.master.is_here() or not pool.startswith(("localhost:", "127.")):
        check_worker_pool(pool)
        return f"{count} Python workers of the pool at {pool}, which answers"
    return f"{count} Python workers of the pools at {pool} on the machines of the cluster, which cannot be seen from here"
