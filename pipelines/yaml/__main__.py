"""``python -m beam_joins.pipelines.yaml PIPELINE.yaml``: a pipeline of Beam YAML with the transforms of beam_joins,
also on Spark and Flink, which are started for it.
"""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.commands.command_line import WRONG_INPUT, parse_known, sentence_and_code
from beam_joins.pipelines.commands.program import Parser
from beam_joins.pipelines.runners.runner_setup import runner

PROGRAM = "python -m beam_joins.pipelines.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a pipeline; returns 0, 2 for an invalid pipeline or option, 1 if the run failed."""
    parser = Parser(prog=PROGRAM, description="Run a pipeline of Beam YAML with the transforms of beam_joins.")
    parser.add_argument("pipeline", type=Path, metavar="PIPELINE.yaml", help="the pipeline; all other options are Beam's")
    args, flags = parse_known(parser, argv)
    try:
        run(args.pipeline, flags)
    except Exception as error:
        # Beam names the transform and its line in an error of building, and not in one of running
        is_of_building = " at line " in str(error)
        sentence, code = (" ".join(str(error).split()), WRONG_INPUT) if is_of_building else sentence_and_code(error)
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return code
    return 0


def run(path: Path, flags: Sequence[str] = ()) -> None:
    """Run the pipeline of a file with Beam's options. Raises the errors of the pipeline and of the runner."""
    with needs("yaml"):
        import yaml
        from apache_beam.yaml.yaml_provider import parse_providers
        from apache_beam.yaml.yaml_transform import SafeLineLoader, expand_pipeline
    try:
        spec: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=SafeLineLoader)
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(spec, dict) or "pipeline" not in spec:
        raise InputError(f"{path} has no pipeline: write pipeline: with its transforms")
    spec = _with_on(spec)
    of_file = SafeLineLoader.strip_metadata(spec.get("options", {}))
    options = PipelineOptions([*flags], pickle_library="cloudpickle", **of_file)
    providers = parse_providers("", [{"include": str(Path(__file__).with_name("providers.yaml"))}])
    with runner(options) as ready, beam.Pipeline(options=ready) as pipeline:
        expand_pipeline(pipeline, spec, providers, pipeline_path=str(path))


def _with_on(spec: Any) -> Any:
    """A pipeline with the options ``on``, which YAML reads as a truth value where it is written without quotes."""
    if isinstance(spec, list):
        return [_with_on(each) for each in spec]
    return {"on" if name is True else name: _with_on(of) for name, of in spec.items()} if isinstance(spec, dict) else spec


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    sys.exit(main())
