"""Puts the artifacts that Beam stages for a job into the run's directory, which is deleted with the run.

Relies on, in Beam 2.66 to 2.77: environments find ``python_sdk_dependencies(options, tmp_dir)`` by its name in
``apache_beam.transforms.environments``, where it is replaced.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions, SetupOptions
from apache_beam.transforms import environments

_NO_CACHE = "skip"
_NO_FREEZE = "disable_logging_submission_environment"


@contextmanager
def staged_in(directory: Path, options: PipelineOptions) -> Iterator[None]:
    """Makes Beam stage the artifacts of a job in `directory` during the block, where it would make
    directories that stay.

    Changes `options`: no cache for requirements that nobody has named, and no list of the installed packages,
    for which Beam would run pip.
    """
    setup, debug = options.view_as(SetupOptions), options.view_as(DebugOptions)
    if not setup.requirements_file:
        setup.requirements_cache = setup.requirements_cache or _NO_CACHE
    if not debug.lookup_experiment(_NO_FREEZE):
        debug.add_experiment(_NO_FREEZE)
    original: Any = environments.python_sdk_dependencies

    def dependencies(options: PipelineOptions, tmp_dir: str | None = None) -> Any:
        return original(options, tmp_dir or tempfile.mkdtemp(dir=directory))

    environments.python_sdk_dependencies = dependencies
    try:
        yield
    finally:
        environments.python_sdk_dependencies = original
