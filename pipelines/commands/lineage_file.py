"""``--lineage-file``: the runs of a job as events of OpenLineage, one line of JSON each."""

import os
import re
from argparse import Namespace
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.base.input_error import os_sentence
from beam_joins.pipelines.commands.command_spec import CHANGES, LATEST, TO, CommandSpec
from beam_joins.pipelines.commands.exported_run import ExportedRun, Outcome
from beam_joins.pipelines.commands.programs import installed_version
from beam_joins.pipelines.commands.standard_streams import STANDARD
from beam_joins.pipelines.commands.write_json import write_line

with needs("openlineage"):
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import DatasetFacet, InputDatasetFacet, OutputDatasetFacet, RunFacet, set_producer
    from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
    from openlineage.client.generated.job_type_job import JobTypeJobFacet
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
    from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
    from openlineage.client.serde import Serde
    from openlineage.client.uuid import generate_new_uuid

NAMESPACE: Final = "beam_joins"
_STATES: Final = {Outcome.SUCCEEDED: RunState.COMPLETE, Outcome.FAILED: RunState.FAIL, Outcome.INTERRUPTED: RunState.ABORT}
_PORTS: Final = {"postgres": 5432, "kafka": 9092}


class LineageFile:
    """The file at a path, to which events are appended. Raises InputError if it has other lines.

    The namespace of the job is the environment's ``OPENLINEAGE_NAMESPACE``, or ``beam_joins``.
    """

    def __init__(self, path: str, spec: CommandSpec, args: Namespace) -> None:
        _require_events(path)
        self._path, self._spec, self._args = path, spec, args
        self._inputs = [side for side in spec.sides if side.path(args) != STANDARD]
        self._streams = [name for name, path in ((CHANGES, args.output), (LATEST, args.latest)) if path == STANDARD]
        self._run: ExportedRun | None = None
        set_producer(f"pkg:pypi/beam-joins@{installed_version()}")

    def started(self, run: ExportedRun) -> None:
        """Appends START. Raises OutputError."""
        self._run, self._id = run, str(generate_new_uuid())
        self._append(run, RunState.START, run.begin)

    def ended(self, run: ExportedRun) -> None:
        """Appends COMPLETE, FAIL or ABORT, behind a START; nothing of a run that had nothing to do. Raises OutputError."""
        if run.summary is None and run.outcome is Outcome.SUCCEEDED:
            return
        if run is not self._run:
            self.started(run)
        self._append(run, _STATES[run.outcome], run.end or run.begin)

    def _append(self, run: ExportedRun, state: RunState, at: datetime) -> None:
        facets: dict[str, RunFacet] = {}
        if run.failure and state is not RunState.START:
            facets["errorMessage"] = ErrorMessageRunFacet(run.failure, "PYTHON")
        inputs, outputs = self._input_datasets(run), self._output_datasets(run)
        name = ":".join([self._spec.command, *(each.name for each in outputs[:1])])
        kind = JobTypeJobFacet(processingType="BATCH", integration="BEAM_JOINS", jobType="COMMAND")
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE", NAMESPACE)
        event = RunEvent(
            eventType=state,
            eventTime=at.isoformat(),
            run=Run(self._id, facets=facets),
            job=Job(namespace, name, facets={"jobType": kind}),
            inputs=inputs,
            outputs=outputs,
        )
        write_line(Serde.to_json(event).encode(), self._path, append=True)

    def _input_datasets(self, run: ExportedRun) -> list[InputDataset]:
        datasets, args = [], self._args
        changelogs = {} if run.job is None else {each.name: each for each in run.job.changelogs}
        for name, path in ((side.name, side.path(args)) for side in self._inputs):
            source = args.inputs[name].sources[name] if name in args.inputs else ""
            types: Mapping[str, str] = {}
            if (changelog := changelogs.get(name)) is not None:
                types = dict(changelog.types) if changelog.table is None else changelog.table.types
                source = source if changelog.table is None else changelog.table.name
            if path is not None:
                counts: dict[str, InputDatasetFacet] = {}
                if run.summary is not None:
                    counts = {"inputStatistics": InputStatisticsInputDatasetFacet(run.summary.read(name))}
                datasets.append(InputDataset(*dataset_at(path, source), inputFacets=counts, facets=_schema(types.items())))
        return datasets

    def _output_datasets(self, run: ExportedRun) -> list[OutputDataset]:
        args, target = self._args, self._args.to_target
        places = {CHANGES: args.changes or args.output, LATEST: args.latest}
        named = {name: dataset_at(path) for name, path in places.items() if path and name not in self._streams}
        if target is not None:
            named[TO] = dataset_at(target.address.options.get("conninfo", args.to), target.name)
        columns: dict[str, Any] = {each.name: getattr(each.records, "columns", ()) for each in run.outputs}
        if TO in columns:
            columns[TO] = columns[TO].field("new").type if "new" in columns[TO].names else columns[TO]
        written = {} if run.summary is None else run.summary.data()["outputs"]
        datasets = []
        for name, dataset in named.items():
            counts: dict[str, OutputDatasetFacet] = {}
            if name in written:
                records, size = written[name]["written_records"], written[name].get("size_bytes")
                counts = {"outputStatistics": OutputStatisticsOutputDatasetFacet(records, size)}
            schema = _schema((each.name, each.type) for each in columns.get(name, ()))
            datasets.append(OutputDataset(*dataset, outputFacets=counts, facets=schema))
        return datasets


def _require_events(path: str) -> None:
    """Raise InputError for a file whose first line is no event."""
    try:
        with open(path, "rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"--lineage-file: cannot read {os_sentence(path, error)}") from error
    if line and b'"schemaURL"' not in line:
        raise InputError(f"--lineage-file: {path} has other lines than events of OpenLineage: name another file")


def _schema(columns: Iterable[tuple[str, Any]]) -> dict[str, DatasetFacet]:
    """The facet of columns with these types, none without columns."""
    fields = [_field(*column) for column in columns]
    return {"schema": SchemaDatasetFacet(fields=fields)} if fields else {}


def _field(name: str, type_: Any) -> SchemaDatasetFacetFields:
    nested = [_field(each.name, each.type) for each in type_] if isinstance(type_, pa.StructType) else None
    return SchemaDatasetFacetFields(name, str(type_) if nested is None else "struct", fields=nested)


def dataset_at(address: str, table: str = "") -> tuple[str, str]:
    """The namespace and the name of the dataset at a path or an address, by OpenLineage's conventions; ``table`` is the
    table in a database.

    >>> dataset_at("/data/orders-*.jsonl"), dataset_at("delta:s3://lake/sales/orders")
    (('file', '/data/orders-*.jsonl'), ('s3://lake', 'sales/orders'))
    >>> dataset_at("postgres://me@db/shop", "orders"), dataset_at("kafka://a:9092,b:9092/shop.orders")
    (('postgres://db:5432', 'shop.public.orders'), ('kafka://a:9092', 'shop.orders'))
    >>> dataset_at("ducklake:/lake.ducklake?table=orders", "orders")
    ('ducklake:/lake.ducklake', 'main.orders')
    >>> dataset_at("bigquery:shop.sales.orders", "shop.sales.orders")
    ('bigquery', 'shop.sales.orders')
    """
    if address.startswith("bigquery:"):
        return "bigquery", table
    if address.startswith("ducklake:"):  # of which OpenLineage says nothing
        catalog = address.removeprefix("ducklake:").partition("?table=")[0]
        return f"ducklake:{os.path.abspath(catalog) if '://' not in catalog else catalog}", f"main.{table}"
    scheme, separator, rest = address.removeprefix("delta:").partition("://")
    if not separator:
        return "file", os.path.abspath(scheme)
    authority, _, path = rest.partition("/")
    if scheme == "azfs":
        container, _, path = path.partition("/")
        return f"wasbs://{container}@{authority}.dfs.core.windows.net", path
    scheme = "postgres" if scheme == "postgresql" else scheme
    if scheme in _PORTS:
        server = authority.rpartition("@")[2].split(",")[0] or "localhost"
        authority = server if re.search(r":\d+$", server) else f"{server}:{_PORTS[scheme]}"
    if scheme == "postgres":
        path = f"{unquote(path.partition('?')[0])}.{table if '.' in table else f'public.{table}'}"
    return f"{scheme}://{authority}", path
