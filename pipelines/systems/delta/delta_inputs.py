"""Delta tables as inputs of a command: ``--left delta:PATH --left-key COLUMN``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_joins.errors import InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.changelogs.spooled import InputOptions, Spooled

if TYPE_CHECKING:
    from beam_joins.pipelines.formats.changelog_columns import Envelopes
    from beam_joins.pipelines.systems.delta.delta_rounds import DeltaRound, DeltaSequence
    from beam_joins.transforms.connect.runs import StateFolder


class DeltaInputs(NamedTuple):
    """The inputs that are Delta tables: :class:`~beam_joins.pipelines.changelogs.spooled.Inputs`."""

    shown: Mapping[str, str]
    sources: Mapping[str, str]
    noun: str = "table"
    elements: str = "versions"

    @classmethod
    def of(cls, inputs: Mapping[str, InputOptions], others: Sequence[str]) -> "DeltaInputs":
        """The inputs with these addresses. Raises InputError for one without a path, and for inputs of another kind."""
        paths = {name: each.address.partition(":")[2] for name, each in inputs.items()}
        for name, each in inputs.items():
            if not paths[name]:
                raise InputError(f"{each.option}: name a folder behind {each.address}")
            for option, value in (("format", each.format), ("table", each.table)):
                if value:
                    raise InputError(f"{each.flag(option)} is not for Delta tables: leave it out")
        if others:
            options = " and ".join(sorted((*others, *(each.option for each in inputs.values()))))
            raise InputError(f"{options}: give a Delta table for each, as places of others cannot be compared with its commits")
        return cls({name: each.address for name, each in inputs.items()}, paths)

    @property
    def options(self) -> Mapping[str, Mapping[str, str]]:
        """The values of other options that an address has."""
        return {name: {"format": "delta"} for name in self.sources}

    def read(self, envelopes: "Mapping[str, Envelopes]", state: "StateFolder | None", folder: str, most_rows: int | None) -> Spooled:
        """The versions since the last run; without a state the rows as they are. Several tables are ordered by the times of
        their commits. Raises InputError.
        """
        from beam_joins.pipelines.systems.delta.delta_rounds import (  # noqa: PLC0415  # with Beam
            DeltaSource,
            read_delta,
            read_delta_in_run,
        )

        sequence_by: DeltaSequence = "_commit_version" if len({*self.sources.values()}) == 1 else "_commit_timestamp"
        versions, rounds = dict[str, int](), dict[str, "DeltaRound"]()
        for name, path in self.sources.items():
            source = DeltaSource.at(path, sequence_by)
            if state is None:
                read = read_delta(source, None, folder, version=versions.get(path), most_rows=most_rows)
            else:
                read = read_delta_in_run(source, name, state, version=versions.get(path))
            versions[path], rounds[name] = read.version, read
        files = {name: read.files for name, read in rounds.items()}
        tables = {name: read.table._replace(key=envelopes[name].key) for name, read in rounds.items()}
        remarks = {self.sources[name]: _remark(read) for name, read in rounds.items() if read.files}
        return Spooled(files, tables, [f"Delta table {path}: {remark}" for path, remark in remarks.items()])

    def forget(self, name: str, read: dict[str, Any]) -> None:
        """Have a table be read as it is now; ``read`` is the progress of the inputs of a state."""
        read.pop(f"delta {name}", None)


def _remark(read: "DeltaRound") -> str:
    if read.before is None:
        return f"version {read.version}, read as it is"
    return f"{counted(read.version - read.before, 'version')} up to {read.version}"
