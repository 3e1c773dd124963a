"""The parts of Beam that are private or replaced by us: what the code relies on, module by module.

A test that fails says that Beam has changed there, and which module of ours to look at.
"""

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal.azure.auth import get_service_credentials
from apache_beam.io.avroio import _FastAvroSource
from apache_beam.io.aws.clients.s3.boto3_client import Client
from apache_beam.io.aws.s3io import S3IO
from apache_beam.io.azure.blobstorageio import parse_azfs_path
from apache_beam.io.filesystem import FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.gcp.gcsfilesystem import GCSFileSystem
from apache_beam.io.gcp.gcsio import GcsIO, create_storage_client
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.common import MethodWrapper
from apache_beam.runners.portability import portable_runner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker, sdk_worker_main
from apache_beam.transforms import environments
from apache_beam.transforms.core import DoFn, get_function_args_defaults, get_function_arguments
from apache_beam.transforms.sideinputs import SideInputMap
from apache_beam.transforms.userstate import get_dofn_specs
from apache_beam.transforms.window import GlobalWindow, GlobalWindows

from beam_joins import InputError
from beam_joins.pipelines.runners import loopback
from beam_joins.pipelines.runners.jars import CACHE
from beam_joins.transforms.engine.construction.fingerprints import label_of
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures

ROOT = Path(__file__).parent.parent
PRIVATE = {
    "pipelines/formats/avro_blocks.py": {"_FastAvroSource"},
    "pipelines/runners/flink_job.py": {"_job_id"},
    "pipelines/runners/local/graph_building.py": {"_view_options"},
    "transforms/engine/files/object_clients.py": {"_pipeline_options"},
    "transforms/engine/construction/fingerprints.py": {"_current_transform"},
    "transforms/engine/backfill.py": {"_main_tag"},
}
"""Beam's private names, by the modules that use them."""
REPLACED = {
    "pipelines/runners/keeper.py": {"sdk_worker.DEFAULT_BUNDLE_PROCESSOR_CACHE_SHUTDOWN_THRESHOLD_S"},
    "pipelines/runners/staging.py": {"environments.python_sdk_dependencies"},
    "transforms/engine/construction/run_hooks.py": {"pipeline.run", "result.wait_until_finish"},
}
"""What is put in the place of parts of Beam, by the modules that do it."""
OTHERS = {"_asdict", "_exit", "_fields", "_make", "_option_string_actions", "_replace", "_AUTO_OFFSET_RESET", "_PARTITION_EOF"}
"""Private names of Python's own library and of Kafka's client."""
METHODS = {"output_stream", "run", "wait_until_finish"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for room in ("beam_joins", "coders", "transforms", "pipelines"):
        for path in (ROOT / room).rglob("*.py"):
            if not path.is_symlink():
                yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def defined() -> set[str]:
    """The private names that the code defines itself."""
    names = set[str]()
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def test_the_private_names_of_beam_that_the_code_uses_are_those_that_are_tested_here() -> None:
    ours, used = defined() | OTHERS, dict[str, set[str]]()
    for path, tree in modules():
        for node in ast.walk(tree):
            imported = node.names if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("apache_beam") else ()
            names = {alias.name for alias in imported} | ({node.attr} if isinstance(node, ast.Attribute) else set())
            if private := {name for name in names if re.match("_[^_]", name)} - ours:
                used.setdefault(path, set()).update(private)
    assert used == PRIVATE, "add a test to this file that fails when Beam changes there, and name it in the module's docstring"


def test_the_parts_of_beam_that_the_code_replaces_are_those_that_are_tested_here() -> None:
    replaced = dict[str, set[str]]()
    for path, tree in modules():
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("apache_beam")
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)):
                continue
            if node.value.id in imported or (node.attr in METHODS and node.value.id != "self"):
                replaced.setdefault(path, set()).add(ast.unparse(node))
    assert replaced == REPLACED, "add a test to this file that fails when Beam changes there, and name it in the module's docstring"


def code_of(function: Any) -> CodeType:
    code: CodeType = getattr(function, "__func__", function).__code__
    return code


def uses(function: Any, *names: str) -> bool:
    return {*names} <= {*code_of(function).co_names}


def test_functions_have_parameters_and_side_inputs_as_the_local_runner_expects() -> None:
    look = "Beam calls functions otherwise: look at pipelines/runners/local"
    rows = beam.Pipeline(runner=FnApiRunner()) | beam.Create([1])
    view = beam.pvalue.AsList(rows)
    assert SideInputMap(type(view), view._view_options(), [GlobalWindows.windowed_value(7)])[GlobalWindow()] == [7], look
    for parameter in (DoFn.StateParam, DoFn.TimerParam, DoFn.RestrictionParam, DoFn.WatermarkEstimatorParam):
        assert issubclass(parameter, type(DoFn.TimestampParam)), look
    timed = beam.Map(lambda n, at=DoFn.TimestampParam: n).fn
    assert get_function_arguments(timed, "process") == (["n", "at"], [DoFn.TimestampParam]), look


def functions_that_keep_their_signatures(of: Any = KeptSignatures) -> Iterator[Any]:
    for each in of.__subclasses__():
        yield each
        yield from functions_that_keep_their_signatures(each)


def test_functions_that_keep_their_signatures_have_those_that_beam_finds_in_them() -> None:
    look = "Beam inspects functions otherwise: look at transforms/engine/construction/kept_signatures.py"
    for path, tree in modules():
        if any(isinstance(node, ast.Name) and node.id == KeptSignatures.__name__ for node in ast.walk(tree)):
            import_module(f"beam_joins.{path.removesuffix('.py').replace('/', '.')}")
    kinds = [each for each in functions_that_keep_their_signatures() if each.__module__.startswith("beam_joins.")]
    assert len(kinds) > 20
    for kind in kinds:
        function = kind.__new__(kind)
        for name in ("process", "process_batch", "setup", "start_bundle", "finish_bundle", "teardown"):
            assert function.get_function_arguments(name) == get_function_args_defaults(getattr(function, name)), (kind, name)
        others = [each for each in vars(kind).values() if isinstance(each, FunctionType) and each.__name__ not in dir(function)]
        parameters = [each.default for other in others for each in signature(other).parameters.values()]
        assert not any(isinstance(each, type(DoFn.TimestampParam)) for each in parameters), f"{kind} has state or timers"
    assert uses(get_dofn_specs, "dir", "MethodWrapper"), look
    assert uses(get_function_arguments, "hasattr"), look


def test_beam_stages_what_it_finds_by_the_name_that_is_replaced() -> None:
    look = "Beam stages dependencies otherwise: look at pipelines/runners/staging.py"
    assert [*signature(environments.python_sdk_dependencies).parameters] == ["options", "tmp_dir"], look
    for environment in (environments.ExternalEnvironment, environments.DockerEnvironment, environments.ProcessEnvironment):
        assert uses(environment.from_options, "python_sdk_dependencies"), look


def test_workers_begin_and_forget_bundles_as_the_keeper_expects() -> None:
    look = "Beam's worker begins otherwise: look at pipelines/runners/keeper.py"
    name = "DEFAULT_BUNDLE_PROCESSOR_CACHE_SHUTDOWN_THRESHOLD_S"
    assert getattr(sdk_worker, name) == 60, look
    cache = vars(sdk_worker.BundleProcessorCache).values()
    assert any(uses(method, name) for method in cache if hasattr(method, "__code__")), look
    assert next(iter(signature(sdk_worker_main.create_harness).parameters)) == "environment", look
    assert callable(sdk_worker.SdkHarness.run), look


def test_the_result_of_a_portable_job_has_its_id_and_the_thread_that_is_waited_for() -> None:
    result = portable_runner.PipelineResult
    assert uses(result.__init__, "_job_id"), "Beam's result has no _job_id: look at pipelines/runners/flink_job.py"
    texts = {text for each in vars(result).values() if hasattr(each, "__code__") for text in each.__code__.co_consts}
    assert "wait_until_finish_read" in texts, "Beam's thread has another name: look at pipelines/runners/run_log.py"
    assert Path(portable_runner.__file__).name == "portable_runner.py", "look at pipelines/runners/run_log.py"


def test_pipeline_options_have_the_flags_that_they_were_made_of() -> None:
    flags = ["--spark_master_url=local[4]"]
    assert PipelineOptions(flags)._flags == flags, "look at master_url in pipelines/runners/spark_options.py"
    assert [*signature(PipelineOptions._add_argparse_args).parameters] == ["parser"], "look at pipelines/commands/command_line.py"


def test_avro_records_are_read_from_a_range_by_the_source_of_beam() -> None:
    look = "Beam's source of Avro records has changed: look at records_of_blocks in pipelines/formats/avro_blocks.py"
    assert "validate" in signature(_FastAvroSource).parameters, look
    assert [*signature(_FastAvroSource.read_records).parameters] == ["self", "file_name", "range_tracker"], look


def test_file_systems_list_a_prefix_and_have_their_options() -> None:
    look = "Beam's file systems have changed: look at transforms/engine/files"
    assert len(signature(GCSFileSystem._list).parameters) == 2, look
    assert hasattr(FileSystems, "_pipeline_options"), look
    assert {"client", "options"} <= signature(S3IO).parameters.keys(), look
    assert uses(Client.__init__, "client"), look
    assert list(signature(GcsIO).parameters)[:2] == ["storage_client", "pipeline_options"], look
    assert next(iter(signature(create_storage_client).parameters)) == "pipeline_options", look
    assert list(signature(get_service_credentials).parameters) == ["pipeline_options"], look
    assert parse_azfs_path("azfs://account/container/a/b", get_account=True) == ("account", "container", "a/b"), look
    assert {"azure_connection_string", "blob_service_endpoint"} <= PipelineOptions([]).get_all_options().keys(), look
    assert re.match(FileSystem.translate_pattern("s3://b/*.a"), "s3://b/c.a"), look


class _Labelled(beam.PTransform[Any, Any]):
    def expand(self, pvalue: Any) -> Any:
        assert label_of(pvalue.pipeline) == "outer/inner", "look at label_of in transforms/engine/construction/fingerprints.py"
        stack = [type(each.transform) for each in pvalue.pipeline.transforms_stack]
        assert stack[-1] is _Labelled, "look at continued in transforms/engine/resumed_apply.py"
        made = pvalue | beam.Map(str)
        several = pvalue | "several" >> beam.Map(str).with_outputs("other", main="all")
        assert (several._main_tag, several["all"].tag) == ("all", None), "look at _output in transforms/engine/backfill.py"
        look = "look at producer_of in transforms/engine/construction/applied_transforms.py"
        assert made.producer.parent is pvalue.pipeline.transforms_stack[-1], look
        assert list(made.producer.outputs.values()) == [made], look
        assert made.producer.inputs == (pvalue,), look
        return made


class _Outer(beam.PTransform[Any, Any]):
    def expand(self, pvalue: Any) -> Any:
        return pvalue | "inner" >> _Labelled()


def test_a_transform_that_is_applied_finds_its_full_label() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    assert (pipeline | beam.Create([1]) | "outer" >> _Outer()).element_type is str


@pytest.mark.parametrize(("error", "tagged"), [(ValueError, True), (InputError, False)], ids=["ValueError", "InputError"])
def test_an_error_of_input_has_no_step_behind_its_sentence(error: Callable[[str], Exception], tagged: bool) -> None:
    def fail(element: Any) -> Any:
        raise error(f"a sentence about {element}")

    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | beam.Create([1]) | beam.Map(fail)
    with pytest.raises(Exception, match="a sentence about 1") as caught:
        pipeline.run()
    look = "Beam tags errors otherwise than by _tagged_with_step: look at InputError in beam_joins/errors.py"
    assert ("a sentence about 1 [while running " in str(caught.value)) == tagged, look


class _Signed(beam.DoFn):
    def process(self, element: Any, **others: Any) -> Any:
        yield element, others


def test_beam_reads_what_a_method_takes_from_its_signature() -> None:
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "element")]
    timestamp = Parameter("at", Parameter.POSITIONAL_OR_KEYWORD, default=beam.DoFn.TimestampParam)
    _Signed.process.__signature__ = Signature([*parameters, timestamp])  # type: ignore[attr-defined]
    look = "Beam no longer heeds __signature__: look at turn_dofn in transforms/engine/unbounded/tick_turns.py"
    assert MethodWrapper(_Signed(), "process").defaults == [beam.DoFn.TimestampParam], look


@pytest.mark.parametrize("runner", ["spark", "flink"])
def test_the_java_class_whose_bytes_are_replaced_is_that_of_the_lock_file(runner: str, tmp_path: Path) -> None:
    look = "the class of this jar is another: look at it (javap -v) before pipelines/runners/loopback.py replaces bytes in it"
    lines = (ROOT / "pipelines" / "runners" / f"{runner}.lock").read_text().splitlines()
    locked = next(line for line in lines if f":{loopback._CORE.rstrip('-')}:" in line)
    assert locked == f"org.apache.beam:{loopback.PATCHED}", look
    jar = next(iter(CACHE.rglob(f"{loopback._CORE}{locked.split()[0].rpartition(':')[2]}.jar")), None)
    if jar is None:
        pytest.skip("no run on Spark or Flink has fetched the jar")
    assert loopback.loopback_jar([jar], tmp_path).stat().st_size > 0, look
