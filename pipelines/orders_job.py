"""What ``python -m pipelines.orders`` does, once its options are understood: look, run, publish."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import Change, LatestTable, TableToChanges
from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.enriched_schema import changelog_schema, enriched_schema, key_type
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.read_changelog import OnBadRecord, ReadChangelog
from beam_joins.pipelines.changelog_files.tally import TallyDropped, TallyRows
from beam_joins.pipelines.changelog_files.time_units import remarks_on, require_one_unit
from beam_joins.pipelines.changelog_files.write_parts import Report, WriteParts, WriteReport, read_report
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.command.runner import any_runner
from beam_joins.pipelines.command.summary import MATCHED, ROWS, UNREFERRING
from beam_joins.pipelines.enrich import How, enrich
from beam_joins.transforms.engine.checked_table import whole_table
from beam_joins.transforms.engine.partitions import suggested_partitions
from beam_joins.transforms.engine.replay import ReplayOptions

CHANGES: Final = "changes"
LATEST: Final = "latest"


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

    def check(self) -> None:
        """Raise InputError for columns that are not there, and for keys that could never meet."""
        for changelog in (self.orders, self.customers):
            columns = changelog.columns
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
        return [*remarks_on(self.orders), *remarks_on(self.customers)]

    def run(self, options: PipelineOptions, progress: Progress) -> tuple[Report, dict[str, list[str]]]:
        """Run it; gives what was counted, and for each output the paths of its files."""
        with Staging(self.outputs) as staging:
            report_path = f"{staging.beside(self.outputs[0])}/report.json"
            with ExitStack() as running:
                with progress.phase("starting the runner"):
                    ready = running.enter_context(any_runner(options))
                with progress.phase("run", staging.said):
                    self._pipeline(ready, staging, report_path).run().wait_until_finish()
            with progress.phase("finishing"):
                report = read_report(report_path)
                parts = {
                    output.name: sorted(part.path for part in report.parts if part.output == output.name) for output in self.outputs
                }
                return report, staging.publish(parts, one_file=self.one_file)

    def _pipeline(self, options: PipelineOptions, staging: Staging, report_path: str) -> beam.Pipeline:
        replay = options.view_as(ReplayOptions)
        replay.beam_joins_partitions = replay.beam_joins_partitions or suggested_partitions(self.orders.bytes + self.customers.bytes)
        pipeline = beam.Pipeline(options=options)
        order_key, customer_key = self.orders.columns.key, self.customers.columns.key
        referred = self.customers.first_kind_of(customer_key)
        orders = pipeline | "Read orders" >> ReadChangelog(
            self.orders,
            on_bad_record=self.on_bad_record,
            reference=self.foreign_key,
            number=None if self.min_amount is None else self.amount,
            kinds={
                self.foreign_key: referred or self.orders.first_kind_of(self.foreign_key),
                order_key: self.orders.first_kind_of(order_key),
            },
            added=self.customer_field,
            places=True,
        )
        customers = pipeline | "Read customers" >> ReadChangelog(
            self.customers, on_bad_record=self.on_bad_record, kinds={customer_key: referred}, places=True
        )
        enriched = enrich(
            orders.rows,
            customers.rows,
            order_columns=self.orders.columns,
            customer_columns=self.customers.columns,
            foreign_key=self.foreign_key,
            how=self.how,
            amount=self.amount,
            min_amount=self.min_amount,
            customer_field=self.customer_field,
        )
        facts = [orders.tallies, customers.tallies]
        for place, dropped in (
            ("orders", enriched.dropped_orders),
            ("customers", enriched.dropped_customers),
            ("join", enriched.dropped_joins),
        ):
            facts.append(dropped | f"Tally {place}" >> beam.ParDo(TallyDropped(place)))
        foreign_key, customer_field = self.foreign_key, self.customer_field
        refer = {ROWS: lambda order: True, UNREFERRING: lambda order: order.get(foreign_key) is None}
        matched = {MATCHED: lambda order: order[customer_field] is not None}
        facts.append(
            enriched.orders | "Orders as changes" >> TableToChanges() | "Tally rows" >> beam.ParDo(TallyRows("orders", refer))
        )
        # the changes of an order stand one after the other in the file
        table = whole_table(enriched.table) if any(output.name == CHANGES for output in self.outputs) else enriched.table
        changes = table | "As changes" >> TableToChanges()
        facts.append(changes | "Tally matched" >> beam.ParDo(TallyRows("orders", matched)))
        for output in self.outputs:
            rows = (
                changes | "Records" >> beam.Map(record_of)
                if output.name == CHANGES
                else table | "Latest" >> LatestTable() | "Rows" >> beam.Values()
            )
            facts.append(rows | f"Write {output.name}" >> beam.ParDo(WriteParts(output, staging.beside(output))))
        _ = tuple(facts) | "Report" >> WriteReport(report_path)
        return pipeline


def record_of(change: Change[Any, Mapping[str, Any]]) -> dict[str, Any]:
    """A change as it is written.

    >>> record_of(Change(7, {"a": 1}, None, timestamp=5, position=9))
    {'key': 7, 'op': 'delete', 'old': {'a': 1}, 'new': None, 'timestamp': 5, 'position': 9}
    """
    key, old, new, timestamp, position = change
    op = "delete" if new is None else "insert" if old is None else "update"
    return {"key": key, "op": op, "old": old, "new": new, "timestamp": timestamp, "position": position}


def output_of(name: str, path: str, format_: str, *, orders: Changelog, customers: Changelog, customer_field: str) -> Output:
    """An output, with the schema that follows from the inputs' if it is Avro. Raises InputError if they have none."""
    if format_ != "avro":
        return Output(name, path, "json lines")
    if orders.schema is None or customers.schema is None:
        raise InputError(f"{path} would be Avro, which needs Avro inputs to take its schema from: name it .jsonl")
    without = (orders.columns.about_the_change(), customers.columns.about_the_change())
    row = enriched_schema(orders.schema, customers.schema, customer_field=customer_field, without=without)
    schema = row if name == LATEST else changelog_schema(row, key_type(orders.schema, orders.columns.key))
    return Output(name, path, "avro", schema)
