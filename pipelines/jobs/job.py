"""What a command that makes tables of changelogs does, once its options are understood: look, run, publish."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins.pipelines.changelog_files.changelog import Changelog
from beam_joins.pipelines.changelog_files.joined_schema import changelog_schema, combined_key_type, joined_schema, key_type, row_schema
from beam_joins.pipelines.changelog_files.outputs import Output, Staging
from beam_joins.pipelines.changelog_files.read_changelog import OnBadRecord
from beam_joins.pipelines.changelog_files.reading import Form, Kind, Reading
from beam_joins.pipelines.changelog_files.time_units import remarks_on, require_one_unit
from beam_joins.pipelines.changelog_files.write_parts import Report, read_report
from beam_joins.pipelines.command.input_error import InputError
from beam_joins.pipelines.command.progress import Progress
from beam_joins.pipelines.command.runner import any_runner
from beam_joins.pipelines.command.watched_run import WatchedRun
from beam_joins.pipelines.jobs.names import LACKING, How, Names
from beam_joins.pipelines.jobs.pipeline import LATEST, Shape, pipeline_of
from beam_joins.pipelines.jobs.select import Item, Share, shares_of
from beam_joins.pipelines.jobs.summary import Summary
from beam_joins.transforms.engine.state_folder import StateFolder


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that the run needs to know: of one changelog its table, of two their join."""

    names: Names
    changelogs: tuple[Changelog, ...]
    items: tuple[Item, ...]
    how: How = "inner"
    foreign_key: str | None = None
    """The column of the left rows with the key of a right row; None: the keys are joined."""
    amount: str = ""
    min_amount: Decimal | None = None
    on_bad_record: OnBadRecord
    one_file: bool
    reports: bool = False
    """Whether figures for a report are counted."""
    known_kinds: tuple[Kind, ...] | None = None
    """What the keys of the changelogs hold, where an earlier run has seen it."""

    @cached_property
    def shares(self) -> dict[int, Share]:
        """What each side gives to a row of the result, by its number. Raises InputError."""
        options = [side.option for side in self.names.sides]
        shares = shares_of(
            self.items, options, [each.rows_have for each in self.changelogs], LACKING.get(self.how, ()), self.names.rename
        )
        if self.how in ("semi", "anti") and 1 in shares:
            raise InputError(f"--how {self.how} gives left rows alone: leave the columns of the right side out of --select")
        return shares

    def check(self) -> None:
        """Raise InputError for columns that are not there, and for keys that could never meet."""
        for changelog in self.changelogs:
            columns = changelog.columns
            if changelog.files and len(said := changelog.files[0].key) > 1:
                raise InputError(
                    f"{changelog.name} have a primary key of several columns, {', '.join(said)}: name one that tells their rows apart with {columns.flag('key')}"
                )
            for option, column in (
                ("key", columns.key),
                ("timestamp", columns.timestamp),
                *(("sequence", column) for column in (columns.sequence, *columns.within)),
                ("delete-column", columns.delete),
            ):
                if column is not None:
                    changelog.require(columns.flag(option), column)
        if self.foreign_key is not None:
            self.changelogs[0].require("--foreign-key", self.foreign_key)
        if self.min_amount is not None:
            self.changelogs[0].require("--amount", self.amount)
        for side, share in self.shares.items():
            for column, _ in share.columns or ():
                self.changelogs[side].require("--select", column)
            if (added := self._added(side)) is not None and any(added in row for row in self.changelogs[side].first):
                raise InputError(f"{self.changelogs[side].name} have a column '{added}' already: {self.names.rename}")
        if len(self.changelogs) == 2:
            self._check_pair(*self.changelogs)

    def _check_pair(self, left: Changelog, right: Changelog) -> None:
        if (left.columns.sequence is None) != (right.columns.sequence is None):
            flags = " and ".join(each.columns.flag("sequence") for each in (left, right))
            raise InputError(f"{flags} must both name a column or both be empty: positions are compared")
        require_one_unit(left, right)
        column = self.foreign_key or left.columns.key
        reference, key = left.kind_of(column), right.kind_of(right.columns.key)
        if reference and key and reference != key:
            raise InputError(
                f"the {left.name}' column '{column}' holds {reference} and the {right.name}' column '{right.columns.key}' {key}: {self.names.no_match}"
            )

    def _added(self, side: int) -> str | None:
        """The column of the result that rows taken as they come must not have."""
        others = [share.nested for other, share in self.shares.items() if other != side and share.nested]
        return others[0] if others and self.shares[side] == Share() else None

    def remarks(self) -> list[str]:
        """What the summary says of the inputs."""
        return [
            remark for changelog in self.changelogs for remark in (*changelog.layouts(), *changelog.doubts(), *remarks_on(changelog))
        ]

    def summary(
        self, report: Report, files: Mapping[str, Sequence[str]], seconds: Mapping[str, float], more: Sequence[str] = ()
    ) -> Summary:
        """The summary of a run; ``more`` are remarks beside those on the inputs."""
        matches = len(self.changelogs) > 1 and self.how not in ("semi", "anti")
        return Summary(self.names, report, files, seconds, [*more, *self.remarks()], matches=matches)

    def kinds(self) -> tuple[Kind, ...]:
        """What the keys of each changelog hold, in words."""
        return self.known_kinds or tuple(kind or "text" for kind in self.first_kinds())

    def first_kinds(self) -> list[Kind | None]:
        """The same as the first records say it, None where they have no key."""
        left, *others = self.changelogs
        keys = [each.first_kind_of(each.columns.key) for each in self.changelogs]
        if not others:
            return keys
        if self.foreign_key is None:
            return [keys[0] or keys[1]] * 2
        return [keys[0], keys[1] or left.first_kind_of(self.foreign_key)]

    def readings(self, forms: tuple[Form, ...]) -> list[Reading]:
        """What is read of each changelog, for results in these forms."""
        kinds, lacking, readings = self.kinds(), LACKING.get(self.how, ()), []
        for side, changelog in enumerate(self.changelogs):
            refers = side == 0 and self.foreign_key is not None
            share = self.shares.get(side, Share(()))
            schema = changelog.schema if "avro" in forms else None
            without = changelog.columns.about_the_change()
            readings.append(
                Reading(
                    columns=changelog.columns,
                    key=kinds[side],
                    reference=self.foreign_key if refers else None,
                    refers=kinds[1] if refers else "text",
                    amount=self.amount if side == 0 and self.min_amount is not None else None,
                    least=self.min_amount if side == 0 else None,
                    added=self._added(side) if side in self.shares else None,
                    rename=self.names.rename,
                    taken=share.columns,
                    known=share.known and share.known.union(without),
                    forms=forms,
                    avro=schema and row_schema(self._namespace(side), schema, without, share.columns, nullable=side in lacking),
                )
            )
        return readings

    def output(self, name: str, path: str, form: Form, owner: str = "") -> Output:
        """An output, with the schema that follows from the inputs' if it is Avro. Raises InputError if they have none."""
        if form == "json lines":
            return Output(name, path, form, owner=owner)
        schemas = [each.schema for each in self.changelogs if each.schema is not None]
        if len(schemas) < len(self.changelogs):
            raise InputError(f"{path} would be Avro, which needs Avro inputs to take its schema from: name it .jsonl")
        rows = [reading.avro or {} for reading in self.readings((form,))]
        row = joined_schema(
            self.names.records[0], [(rows[side], share.nested) for side, share in self.shares.items()], self.names.records[1]
        )
        keys = [key_type(self._namespace(n), schema, self.changelogs[n].columns.key) for n, schema in enumerate(schemas)]
        key = combined_key_type(keys[1], keys[0]) if self.foreign_key and 0 in LACKING.get(self.how, ()) else keys[0]
        return Output(name, path, form, row if name == LATEST else changelog_schema(row, key), owner)

    def _namespace(self, side: int) -> str:
        return self.names.sides[side].path_option

    def run(self, outputs: tuple[Output, ...], options: PipelineOptions, progress: Progress) -> tuple[Report, dict[str, list[str]]]:
        """Run it; gives what was counted, and for each output the paths of its files."""
        with Staging(outputs) as staging:
            report_path = f"{staging.beside(outputs[0])}/report.json"
            with ExitStack() as running:
                with progress.phase("starting the runner"):
                    ready = running.enter_context(any_runner(options))
                run = WatchedRun(self.changelogs, report_path, staging.said)
                watched = run.run(self.pipeline(outputs, ready, staging, report_path), progress)
            with progress.phase("finishing"):
                report = read_report(report_path)._replace(watched=watched)
                return report, staging.publish(report.parts_of(outputs), one_file=self.one_file)

    def pipeline(
        self,
        outputs: tuple[Output, ...],
        options: PipelineOptions,
        staging: Staging,
        report_path: str,
        folder: StateFolder | None = None,
    ) -> beam.Pipeline:
        """The pipeline, which writes parts of the outputs, and a report that names them; with a folder it goes on where the last run ended."""
        forms = tuple(dict.fromkeys(output.format for output in outputs))
        shape = Shape(self.changelogs, self.readings(forms), self.shares, self.how, self.on_bad_record, self.reports, self.one_file)
        return pipeline_of(shape, outputs, options, staging, report_path, folder)
