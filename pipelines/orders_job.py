"""What ``python -m pipelines.orders`` does, once its options are understood: look, run, publish."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ChangeBatch, LatestTable
from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.enriched_schema import changelog_schema, enriched_schema, key_type, row_schema
from beam_joins.pipelines.changelog_files.in_order import WriteInOrder
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.read_changelog import OnBadRecord, ReadChangelog
from beam_joins.pipelines.changelog_files.reading import Form, Kind, Reading
from beam_joins.pipelines.changelog_files.splicing import avro_changes, json_changes, json_rows_as_lines
from beam_joins.pipelines.changelog_files.tally import TallyDropped, TallyRows, TallyUnreferring
from beam_joins.pipelines.changelog_files.time_units import remarks_on, require_one_unit
from beam_joins.pipelines.changelog_files.write_parts import Report, WriteParts, WriteReport, read_report
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.command.runner import any_runner
from beam_joins.pipelines.command.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.command.watched_run import WatchedRun, log_beside
from beam_joins.pipelines.enrich import How, enrich, has_customer, refers_to_none
from beam_joins.pipelines.report.counted import figures, without_reference
from beam_joins.sorting import valid
from beam_joins.transforms.engine.checked_table import whole_table
from beam_joins.transforms.engine.partitions import suggested_partitions
from beam_joins.transforms.engine.replay_options import ReplayOptions
from beam_joins.transforms.engine.state_folder import StateFolder


@dataclass(frozen=True, kw_only=True)
class OrdersJob:
    """Everything that the run needs to know."""

    orders: Changelog
    customers: Changelog
    outputs: tuple[Output, ...]
    foreign_key: str
    how: How
    amount: str
    min_amount: Decimal | None
    customer_field: str
    on_bad_record: OnBadRecord
    one_file: bool
    reports: bool = False
    """Whether figures for a report are counted."""
    known_kinds: tuple[Kind, Kind] | None = None
    """What the keys of the orders and of the customers hold, where an earlier run has seen it."""

    def check(self) -> None:
        """Raise InputError for columns that are not there, and for keys that could never meet."""
        for changelog in (self.orders, self.customers):
            columns = changelog.columns
            if changelog.files and len(said := changelog.files[0].key) > 1:
                raise InputError(
                    f"{changelog.name} have a primary key of several columns, {', '.join(said)}: name one that tells their rows apart with --{changelog.name}-key"
                )
            for option, column in (
                ("key", columns.key),
                ("timestamp", columns.timestamp),
                *(("sequence", column) for column in (columns.sequence, *columns.within)),
                ("delete-column", columns.delete),
            ):
                if column is not None:
                    changelog.require(f"--{changelog.name}-{option}", column)
        self.orders.require("--foreign-key", self.foreign_key)
        if self.min_amount is not None:
            self.orders.require("--amount", self.amount)
        if (self.orders.columns.sequence is None) != (self.customers.columns.sequence is None):
            raise InputError(
                "--orders-sequence and --customers-sequence must both name a column or both be empty: positions are compared"
            )
        if any(self.customer_field in row for row in self.orders.first):
            raise InputError(
                f"orders have a column '{self.customer_field}' already: give the customer another name with --customer-field"
            )
        require_one_unit(self.orders, self.customers)
        reference, key = self.orders.kind_of(self.foreign_key), self.customers.kind_of(self.customers.columns.key)
        if reference and key and reference != key:
            raise InputError(
                f"the orders' column '{self.foreign_key}' holds {reference} and the customers' column '{self.customers.columns.key}' {key}: "
                "no order would find its customer"
            )

    def remarks(self) -> list[str]:
        """What the summary says of the inputs."""
        return [remark for changelog in (self.orders, self.customers) for remark in (*changelog.layouts(), *remarks_on(changelog))]

    def run(self, options: PipelineOptions, progress: Progress) -> tuple[Report, dict[str, list[str]]]:
        """Run it; gives what was counted, and for each output the paths of its files."""
        with Staging(self.outputs) as staging:
            report_path = f"{staging.beside(self.outputs[0])}/report.json"
            with ExitStack() as running:
                with progress.phase("starting the runner"):
                    ready = running.enter_context(any_runner(options))
                run = WatchedRun((self.orders, self.customers), report_path, staging.said)
                watched = run.run(self.pipeline(ready, staging, report_path), progress)
            with progress.phase("finishing"):
                report = read_report(report_path)._replace(watched=watched)
                return report, staging.publish(report.parts_of(self.outputs), one_file=self.one_file)

    def kinds(self) -> tuple[Kind, Kind]:
        """What the keys of the orders and of the customers hold, in words."""
        if self.known_kinds is not None:
            return self.known_kinds
        referred = self.customers.first_kind_of(self.customers.columns.key) or self.orders.first_kind_of(self.foreign_key)
        return self.orders.first_kind_of(self.orders.columns.key) or "text", referred or "text"

    def readings(self) -> tuple[Reading, Reading]:
        """What is read of the orders and of the customers."""
        forms = tuple(dict.fromkeys(output.format for output in self.outputs))
        key, referred = self.kinds()
        schemas = [
            row_schema(changelog.name, changelog.schema, changelog.columns.about_the_change())
            if changelog.schema is not None and "avro" in forms
            else None
            for changelog in (self.orders, self.customers)
        ]
        orders = Reading(
            columns=self.orders.columns,
            key=key,
            reference=self.foreign_key,
            refers=referred,
            amount=None if self.min_amount is None else self.amount,
            least=self.min_amount,
            added=self.customer_field,
            forms=forms,
            avro=schemas[0],
        )
        return orders, Reading(columns=self.customers.columns, key=referred, forms=forms, avro=schemas[1])

    def pipeline(
        self, options: PipelineOptions, staging: Staging, report_path: str, folder: StateFolder | None = None
    ) -> beam.Pipeline:
        """The pipeline, which writes parts of the outputs, and a report that names them; with a folder it goes on where the last run ended.

        There the changes are in the order of their positions, in parts that are to be merged.
        """
        replay = options.view_as(ReplayOptions)
        if folder is None:  # else as many as in the runs before
            suggested = suggested_partitions(self.orders.bytes + self.customers.bytes)
            replay.beam_joins_partitions = replay.beam_joins_partitions or suggested
        pipeline = beam.Pipeline(options=options)
        if folder is not None:
            folder.attach(pipeline)
        readings = self.readings()
        orders, customers = (
            pipeline
            | f"Read {changelog.name}"
            >> ReadChangelog(changelog, reading, on_bad_record=self.on_bad_record, log=log_beside(report_path, number))
            for number, (changelog, reading) in enumerate(zip((self.orders, self.customers), readings, strict=True))
        )
        # what is remembered must have the same columns in all runs, with a report and without
        keeps_reference = self.reports or folder is not None
        enriched = enrich(
            orders.rows,
            customers.rows,
            order_reading=readings[0],
            customer_reading=readings[1],
            how=self.how,
            customer_field=self.customer_field,
            keeps_reference=keeps_reference,
        )
        refer = {ROWS: valid, UNREFERRING: refers_to_none}
        # the changes of an order stand one after the other in the file
        whole = folder is None and any(output.name == CHANGES for output in self.outputs)
        table = whole_table(enriched.table) if whole else enriched.table
        facts = [
            orders.tallies,
            customers.tallies,
            enriched.dropped_orders | "Tally orders" >> beam.ParDo(TallyDropped("orders")),
            enriched.dropped_customers | "Tally customers" >> beam.ParDo(TallyDropped("customers")),
            enriched.orders | "Tally rows" >> beam.ParDo(TallyRows("orders", refer)),
            table | "Tally matched" >> beam.ParDo(TallyRows("orders", {MATCHED: has_customer})),
        ]
        if self.reports:
            facts += figures(orders.rows, customers.rows, enriched)
        if keeps_reference:
            table = without_reference(table)
        if self.how == "inner":
            facts.append(enriched.orders | "Tally join" >> beam.ParDo(TallyUnreferring("join", refers_to_none)))
        for output in self.outputs:
            directory = staging.beside(output)
            if output.name == CHANGES and folder is not None:
                facts.append(
                    table | f"Write {output.name}" >> WriteInOrder(output, directory, partial(encoded_changes, output=output))
                )
                continue
            rows = table if output.name == CHANGES else table | "Latest" >> LatestTable()
            records = rows | f"Records of {output.name}" >> beam.FlatMap(RECORDS[output.name], output)
            facts.append(records | f"Write {output.name}" >> beam.ParDo(WriteParts(output, directory, by_content=folder is not None)))
        _ = tuple(facts) | "Report" >> WriteReport(report_path)
        return pipeline


def encoded_changes(batch: ChangeBatch, output: Output) -> Iterator[tuple[ChangeBatch, pa.Array]]:
    """The changes of a batch, some at a time, and their records; old values are those of the whole batch."""
    rows = pc.struct_field(batch.values, output.format)
    for start in range(0, len(batch), AT_A_TIME):
        columns = {name: getattr(batch, name).slice(start, AT_A_TIME) for name in ("key", "new", "before", "timestamp", "position")}
        some = ChangeBatch(**columns)
        old, new = rows.take(some.before), rows.slice(start, len(some))
        schema = output.schema
        yield some, json_changes(some, old, new) if schema is None else avro_changes(some, old, new, schema["fields"][0]["type"])


def changes_of(batch: ChangeBatch, output: Output) -> Iterator[pa.Array]:
    """The changes of a batch, encoded, some at a time."""
    return (records for _, records in encoded_changes(batch, output))


def latest_of(batch: pa.RecordBatch, output: Output) -> Iterator[pa.Array]:
    """The rows of a batch, encoded."""
    rows = batch["value"].field(output.format)
    yield json_rows_as_lines(rows) if output.schema is None else rows


CHANGES: Final = "changes"
LATEST: Final = "latest"
RECORDS: Final = {CHANGES: changes_of, LATEST: latest_of}
AT_A_TIME: Final = 16_384
"""So many changes are encoded at a time, each with its old and its new row."""


def output_of(name: str, path: str, format_: Form, *, orders: Changelog, customers: Changelog, customer_field: str) -> Output:
    """An output, with the schema that follows from the inputs' if it is Avro. Raises InputError if they have none."""
    if format_ == "json lines":
        return Output(name, path, "json lines")
    if orders.schema is None or customers.schema is None:
        raise InputError(f"{path} would be Avro, which needs Avro inputs to take its schema from: name it .jsonl")
    without = (orders.columns.about_the_change(), customers.columns.about_the_change())
    row = enriched_schema(orders.schema, customers.schema, customer_field=customer_field, without=without)
    schema = row if name == LATEST else changelog_schema(row, key_type(orders.schema, orders.columns.key))
    return Output(name, path, "avro", schema)
