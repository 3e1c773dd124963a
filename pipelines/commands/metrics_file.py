"""``--metrics-file``: the metrics of runs as a file for Prometheus' node_exporter.

Counters (``_total``) add up over the runs that have written the file, which is read for that, and count only runs that
have succeeded; gauges are of the last run, or of the last one that has succeeded.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.base.input_error import os_sentence, writing
from beam_joins.pipelines.commands.command_spec import CommandSpec
from beam_joins.pipelines.commands.exported_run import ExportedRun, Outcome
from beam_joins.pipelines.commands.summary import GROUPS, JOIN, LATE, OF_RESULT, REASONS, Summary
from beam_joins.transforms.connect.metrics import ABSENT_DELETES

with needs("prometheus"):
    from prometheus_client import CollectorRegistry, write_to_textfile
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

PREFIX: Final = "beam_joins_"
FAMILIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "runs_total": ("Runs that have ended.", ("outcome",)),
    "records_read_total": ("Records read.", ("input",)),
    "records_dropped_total": ("Records that were not applied.", ("input", "stage", "reason")),
    "records_passed_over_total": (
        "Records that describe no change, or change nothing (absent deletes, superseded rows).",
        ("input", "reason"),
    ),
    "records_late_total": ("Records at or before the frontier of an earlier run.", ("input", "reason")),
    "records_written_total": ("Records written.", ("output",)),
    "rows_in_total": ("Rows that a stage processed.", ("stage",)),
    "rows_out_total": ("Rows or changes that a stage emitted.", ("stage",)),
    "unmatched_total": ("Left rows without a right row, at each change of the row.", ("stage",)),
    "worker_seconds_total": ("Seconds that all workers together spent in a stage.", ("stage",)),
    "last_run_success": ("1 if the last run succeeded, 0 if it failed.", ()),
    "last_run_end_timestamp_seconds": ("End of the last run that had something to do.", ()),
    "last_run_duration_seconds": ("Duration of the last run that had something to do.", ()),
    "last_run_processor_seconds": ("Processor time of that run: the command and its processes that ended.", ()),
    "last_run_peak_memory_bytes": ("Peak memory of the command, and of the largest process that it started.", ("process",)),
    "last_success_timestamp_seconds": ("End of the last run that succeeded, also of one that had nothing to do.", ()),
    "run_number": ("Number of the last run of the state.", ()),
    "table_rows": ("Final rows of the first input.", ("input",)),
    "table_unmatched_rows": ("Final rows of the first input without a match.", ("input",)),
    "table_unreferring_rows": ("Final rows of the first input with a null foreign key.", ("input",)),
    "result_size_bytes": ("Size of an output.", ("output",)),
    "state_rows": ("Rows in the state of the partitions that the run updated.", ()),
    "state_size_bytes": ("Bytes of the rows in the state of the partitions that the run updated.", ()),
    "latest_event_timestamp_seconds": ("Largest event time of all runs of the state.", ()),
    "last_run_lag_seconds": ("Seconds from the largest event time of all runs to the end of the last run.", ()),
}
"""The metrics by their names without the prefix: their help and the names of their labels, beside ``pipeline``."""
PIPELINE: Final = "pipeline"
"""The label that tells the files of a folder apart, whose metrics node_exporter puts together: the name of the file."""
SUFFIX: Final = ".prom"


class Sample(NamedTuple):
    """The value of a metric for these values of its labels."""

    name: str
    labels: tuple[str, ...]
    value: float


Values = dict[tuple[str, tuple[str, ...]], float]
"""The samples of a file: their values by metric and values of labels."""


class MetricsFile:
    """The file at a path. Raises InputError if it exists and has other content."""

    def __init__(self, path: str, spec: CommandSpec) -> None:
        self._path, self._spec = path, spec
        read_metrics(path)

    def started(self, run: ExportedRun) -> None:
        """Nothing is written before the end."""

    def ended(self, run: ExportedRun) -> None:
        """Replaces the file by one with the metrics of the run. Raises OutputError, and InputError as at first."""
        values = read_metrics(self._path)
        if run.summary is not None:  # gauges of the run before, which other runs and outputs may have had
            values = {key: value for key, value in values.items() if is_counter(key[0])}
        for name, labels, value in self._samples(run):
            values[name, labels] = value + (values.get((name, labels), 0.0) if is_counter(name) else 0.0)
        registry = CollectorRegistry()
        registry.register(_Families(values, os.path.basename(self._path).removesuffix(SUFFIX)))
        with writing(self._path):
            write_to_textfile(self._path, registry)

    def _samples(self, run: ExportedRun) -> Iterator[Sample]:
        """Additions to counters, and the values of gauges."""
        assert run.end is not None
        end = run.end.timestamp()
        yield from self._zeros()
        yield Sample("last_run_success", (), float(run.outcome is Outcome.SUCCEEDED))
        if run.outcome is Outcome.SUCCEEDED:
            yield Sample("last_success_timestamp_seconds", (), end)
            if run.summary is None:
                return
        yield Sample("runs_total", (run.outcome,), 1)
        yield Sample("last_run_end_timestamp_seconds", (), end)
        yield Sample("last_run_duration_seconds", (), run.seconds)
        yield Sample("last_run_processor_seconds", (), run.processor_seconds)
        yield from (Sample("last_run_peak_memory_bytes", (process,), size) for process, size in run.peak_bytes().items())
        if run.summary is not None:
            yield from self._counted(run.summary.data())
            yield from _worked(run.summary)
            if run.number is not None:
                yield Sample("run_number", (), run.number)
            if run.latest is not None:
                yield Sample("latest_event_timestamp_seconds", (), run.latest / 1e6)
                yield Sample("last_run_lag_seconds", (), end - run.latest / 1e6)

    def _zeros(self) -> Iterator[Sample]:
        """Counters that are there from the first run on, so that a first increase is seen."""
        yield from (Sample("runs_total", (outcome,), 0) for outcome in Outcome)
        for side in self._spec.sides:
            name = side.path_option
            yield Sample("records_read_total", (name,), 0)
            reasons = (reason for reason in REASONS if reason not in OF_RESULT)
            yield from (Sample("records_dropped_total", (name, _stage(side.name, reason), reason), 0) for reason in reasons)
            yield from (Sample("records_late_total", (name, reason), 0) for reason in LATE)
            yield Sample("records_passed_over_total", (name, ABSENT_DELETES.name), 0)
        is_made = {JOIN: len(self._spec.sides) > 1, GROUPS: "aggregate" in self._spec.fixed}
        for reason, place in OF_RESULT.items():
            if is_made[place]:
                yield Sample("records_dropped_total", (self._spec.sides[0].path_option, place, reason), 0)

    def _counted(self, data: Mapping[str, Any]) -> Iterator[Sample]:
        """The counts of the summary for programs."""
        for side in self._spec.sides:
            name, counts = side.path_option, data["inputs"][side.path_option]
            yield Sample("records_read_total", (name,), counts["read_records"])
            for reason, records in counts["dropped_records"].items():
                yield Sample("records_dropped_total", (name, _stage(side.name, reason), reason), records)
            for kind in ("passed_over", "late"):
                for reason, records in counts[f"{kind}_records"].items():
                    yield Sample(f"records_{kind}_total", (name, reason), records)
            for rows in ("rows", "unmatched_rows", "unreferring_rows"):
                if rows in counts:
                    yield Sample(f"table_{rows}", (name,), counts[rows])
        for place in OF_RESULT.values():
            for reason, records in data[f"dropped_by_{place}_records"].items():
                yield Sample("records_dropped_total", (self._spec.sides[0].path_option, place, reason), records)
        for name, output in data["outputs"].items():
            yield Sample("records_written_total", (name,), output["written_records"])
            if "size_bytes" in output:
                yield Sample("result_size_bytes", (name,), output["size_bytes"])


def _worked(summary: Summary) -> Iterator[Sample]:
    """The counts and times of the stages, and the size of the state, as far as the runner reports them."""
    engine = None if summary.watched is None else summary.watched.engine
    for stage in summary.stages():
        yield Sample("rows_in_total", (stage.name,), stage.rows_in)
        yield Sample("rows_out_total", (stage.name,), stage.rows_out)
        yield Sample("worker_seconds_total", (stage.name,), stage.seconds)
        if engine is not None and stage.name == JOIN:
            yield Sample("unmatched_total", (stage.name,), engine.steps[stage.step].unmatched)
    if engine is not None and engine.state_bytes:
        yield Sample("state_rows", (), engine.state_rows)
        yield Sample("state_size_bytes", (), engine.state_bytes)


def _stage(side: str, reason: str) -> str:
    """The stage that drops records of an input for a reason."""
    return f"read {side}" if reason == "bad_record" else f"table of {side}"


def is_counter(name: str) -> bool:
    """Whether a metric adds up over runs."""
    return name.endswith("_total")


def read_metrics(path: str) -> Values:
    """The samples in a file, none if it does not exist. Raises InputError for a file of other content."""
    try:
        with open(path, encoding="utf-8") as file:
            samples = [sample for family in text_string_to_metric_families(file.read()) for sample in family.samples]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"--metrics-file: cannot read {os_sentence(path, error)}") from error
    except ValueError as error:
        raise InputError(f"--metrics-file: {path} has no metrics: name another file") from error
    values = Values()
    for sample in samples:
        if not sample.name.startswith(PREFIX):
            raise InputError(f"--metrics-file: {path} has metrics of another program: name another file")
        name = sample.name.removeprefix(PREFIX)
        labels = FAMILIES.get(name, ("", ()))[1]
        if name in FAMILIES and sample.labels.keys() == {PIPELINE, *labels}:
            values[name, tuple(sample.labels[label] for label in labels)] = sample.value
    return values


class _Families(Collector):
    """Samples as Prometheus' client takes them."""

    def __init__(self, values: Values, pipeline: str) -> None:
        self._values, self._pipeline = values, pipeline

    def collect(self) -> Iterator[Metric]:
        """The families that have samples."""
        for name, (about, labels) in FAMILIES.items():
            kind = CounterMetricFamily if is_counter(name) else GaugeMetricFamily
            family = kind(f"{PREFIX}{name}", about, labels=(PIPELINE, *labels))
            samples = sorted((values, value) for (of, values), value in self._values.items() if of == name)
            for values, value in samples:
                family.add_metric((self._pipeline, *values), value)
            if samples:
                yield family
