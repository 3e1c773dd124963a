"""Refuses pipelines with a state that are built and not run: their results say that they are done."""

from typing import Any

from apache_beam.options.pipeline_options import GoogleCloudOptions, PortableOptions, TestOptions
from apache_beam.pipeline import Pipeline

from beam_joins.errors import StateRefused
from beam_joins.transforms.engine.construction.runner_abilities import abilities


def require_run(pipeline: Pipeline) -> None:
    """Raise :class:`StateRefused` for options by which nothing runs now, such as those of a template."""
    options = pipeline.options
    not_run = {
        "--template_location": options.view_as(GoogleCloudOptions).template_location,
        "--dry_run": options.view_as(TestOptions).dry_run,
        "--output_executable_path": options.view_as(PortableOptions).output_executable_path,
        f"--runner={type(pipeline.runner).__name__}": not abilities(pipeline).runs,
    }
    for option in (name for name, value in not_run.items() if value):
        raise StateRefused(
            f"{option} runs nothing now, and with --beam_joins_state a run counts when it is done: leave one of them out"
        )


def require_job(result: Any) -> None:
    """Raise :class:`StateRefused` for the result of a runner that has started no job."""
    if not getattr(result, "has_job", True):
        raise StateRefused("the runner has started no job: nothing has run, and nothing counts")
