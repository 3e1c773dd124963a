"""The graphs that Beam's Dataflow runner would send, made without network: another runner runs them, or they are looked at."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import google.auth
import pyarrow as pa
import pytest
from apache_beam.io.gcp.gcsio import GcsIO
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow import dataflow_metrics
from apache_beam.runners.dataflow.internal import apiclient
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import environments
from google.auth.credentials import AnonymousCredentials
from google.cloud.dataflow_v1beta3 import JobState

from beam_joins import ForeignKeyJoin, StateFolder, StateRefused, TableFromChangelog
from beam_joins.io import ReadGrowingFiles, WriteChangelog
from tests.object_store import Store

ORDERS = [[{"id": "1", "by": "a", "lsn": 1}, {"id": "2", "by": "b", "lsn": 2}], [{"id": "3", "by": "a", "lsn": 5}]]
CUSTOMERS = [[{"id": "a", "name": "Ann", "lsn": 3}], [{"id": "b", "name": "Bob", "lsn": 4}]]
STATE = "--beam_joins_state=bucket://state/s"
EVENT_TIME = {beam_runner_api_pb2.TimeDomain.EVENT_TIME}
SERVICE_HAS = {"bag_spec", "read_modify_write_spec", "combining_spec"}
"""The kinds of state that Dataflow has for Python, by Beam's capability matrix: neither sets nor maps."""


class Service:
    """Dataflow's API in this process, where another runner runs the graphs that are sent, or none."""

    def __init__(self, *, runs: bool) -> None:
        self.graphs: list[Any] = []
        self._runs = runs

    def client(self, options: Any, root: Any) -> "Service":
        return self

    def create_job(self, job: Any) -> Any:
        graph = beam_runner_api_pb2.Pipeline.FromString(job.proto_pipeline.SerializeToString())
        self.graphs.append(graph)
        if self._runs:
            for environment in graph.components.environments.values():
                environment.CopyFrom(environments.EmbeddedPythonEnvironment.default().to_runner_api(None))
            FnApiRunner().run_via_runner_api(graph, PipelineOptions([])).wait_until_finish()
        return self.get_job("1")

    def get_job(self, number: str) -> Any:
        return SimpleNamespace(id=number, current_state=JobState.JOB_STATE_DONE)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Service]:
    def made(*, runs: bool = True) -> Service:
        service = Service(runs=runs)
        monkeypatch.setattr(google.auth, "default", lambda *_, **__: (AnonymousCredentials(), "project"))
        monkeypatch.setattr(apiclient, "DataflowApplicationClient", service.client)
        monkeypatch.setattr(GcsIO, "is_soft_delete_enabled", lambda *_: False)
        monkeypatch.setattr(environments, "python_sdk_dependencies", lambda *_: ())
        monkeypatch.setattr(dataflow_metrics, "DataflowMetrics", lambda *_: None)
        return service

    return made


def options(*more: str) -> PipelineOptions:
    of_google = ["--project=project", "--region=region", "--temp_location=gs://temporary/t", "--no_auth", "--sdk_location=container"]
    return PipelineOptions(["--runner=DataflowRunner", *of_google, "--beam_joins_partitions=2", *more])


def joined(orders: Any, customers: Any) -> Any:
    tables = (
        rows | name >> TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn")
        for name, rows in (("orders", orders), ("customers", customers))
    )
    return tuple(tables) | ForeignKeyJoin({"by": "left.by", "name": "right.name"}, foreign_key="by")


def bounded(pipeline: beam.Pipeline, number: int) -> None:
    given = (
        pipeline | name >> beam.Create([pa.Table.from_pylist(rows[number])]).with_output_types(pa.Table)
        for name, rows in (("read orders", ORDERS), ("read customers", CUSTOMERS))
    )
    _ = joined(*given) | WriteChangelog("bucket://out/changes.jsonl", key="id", records="rows")


def state_kinds(graph: Any) -> tuple[Counter[str], set[int]]:
    """The kinds of state in a graph, and the domains of its timers."""
    payloads = [
        beam_runner_api_pb2.ParDoPayload.FromString(each.spec.payload)
        for each in graph.components.transforms.values()
        if each.spec.urn == "beam:transform:pardo:v1"
    ]
    kinds = Counter(spec.WhichOneof("spec") or "" for each in payloads for spec in each.state_specs.values())
    return kinds, {spec.time_domain for each in payloads for spec in each.timer_family_specs.values()}


def test_the_graph_of_a_bounded_job_gives_what_the_pipeline_gives(store: Store, service: Callable[..., Service]) -> None:
    sent = service()
    with beam.Pipeline(options=options()) as pipeline:
        bounded(pipeline, 0)
    (graph,) = sent.graphs
    assert store.objects["bucket://out/changes.jsonl"] == b'{"id":"1","by":"a","name":"Ann"}\n'
    kinds, domains = state_kinds(graph)
    assert kinds.keys() <= SERVICE_HAS
    assert domains == EVENT_TIME


def test_the_graphs_of_resumed_jobs_go_on_where_the_last_one_ended(store: Store, service: Callable[..., Service]) -> None:
    sent = service()
    for number in range(2):
        with beam.Pipeline(options=options(STATE)) as pipeline:
            bounded(pipeline, number)
    assert len(sent.graphs) == 2
    rows = [("1", "a", "Ann"), ("2", "b", "Bob"), ("3", "a", "Ann")]
    lines = [f'{{"id":"{key}","by":"{by}","name":"{name}"}}'.encode() for key, by, name in rows]
    assert sorted(store.objects["bucket://out/changes.jsonl"].splitlines()) == lines
    assert StateFolder.last_run("bucket://state/s")[0] == 2


def test_the_graph_of_a_streaming_job_needs_what_dataflow_has(store: Store, service: Callable[..., Service]) -> None:
    sent = service(runs=False)
    pipeline = beam.Pipeline(options=options("--streaming"))
    columns = pa.schema([("id", pa.string()), ("by", pa.string()), ("name", pa.string()), ("lsn", pa.int64())])
    read = [f"bucket://in/{name}/*.jsonl" for name in ("orders", "customers")]
    rows = [pipeline | path >> ReadGrowingFiles(path, timestamp_by="lsn", schema=columns) for path in read]
    _ = joined(*rows)
    pipeline.run()
    (graph,) = sent.graphs
    kinds, domains = state_kinds(graph)
    assert kinds.keys() <= SERVICE_HAS
    assert domains == EVENT_TIME
    assert "beam:requirement:pardo:stateful:v1" in graph.requirements
    assert not {each for each in graph.requirements if "time_sorted" in each or "window_expiration" in each}


@pytest.mark.parametrize("option", ["--dry_run=True", "--template_location=gs://temporary/template"])
def test_a_job_with_a_state_that_is_only_built_is_refused_before_anything_is_sent(
    store: Store, service: Callable[..., Service], option: str
) -> None:
    sent = service()
    with pytest.raises(StateRefused, match="runs nothing now"):
        bounded(beam.Pipeline(options=options(STATE, option)), 0)
    assert (sent.graphs, store.objects) == ([], {})


@pytest.mark.parametrize("option", ["--dry_run=True", "--template_location=gs://temporary/template"])
def test_a_job_without_a_state_may_be_only_built(store: Store, service: Callable[..., Service], option: str) -> None:
    service(runs=False)
    pipeline = beam.Pipeline(options=options(option))
    bounded(pipeline, 0)
    pipeline.run()
    assert store.objects == {}
