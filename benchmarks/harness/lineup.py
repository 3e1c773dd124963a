"""Who takes part in what: the contestants, the cases that they are measured on, and at which sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from benchmarks.data.dataset import Dataset, few_ids, of_work
from benchmarks.works import WORKS, Format

Retracts = Literal["", "debezium", "diff"]
"""Not at all, records of Debezium's form, or a column ``diff`` that is 1 or -1."""
SMALL_SHARE: Final = 20
"""A small run has one part in so many of the size."""


@dataclass(frozen=True)
class Case:
    """A work at one size: a number of rows of the left table, or of keys for the cases that are about keys; measured
    in so many rounds.
    """

    name: str
    work: str
    size: int
    by_keys: bool = False
    rounds: int = 1

    def dataset(self, size: int) -> Dataset:
        """The case's data at some size."""
        return few_ids(size) if self.by_keys else of_work(self.work, size)

    @property
    def unit(self) -> str:
        """What its size counts."""
        return "keys" if self.by_keys else "rows of the left table"


_ROUNDS: Final = {"fk-uniform": 5, "orders-json": 3, "orders-parquet": 3}
"""How often the work that the first page tells the seconds of is measured, and that of the main command; others once."""

CASES: Final = {
    case.name: case
    for case in (
        *(Case(work, work, 1_000_000, rounds=_ROUNDS.get(work, 1)) for work in WORKS if work not in ("changelog", "tables-four")),
        Case("tables-four-10M", "tables-four", 2_500_000),
        Case("many-few-10M", "many-few", 10_000_000),
        Case("fk-wide-10M", "fk-wide", 10_000_000),
        Case("fk-short-10M", "fk-short", 10_000_000),
        Case("fk-wide-large-10M", "fk-wide-large", 10_000_000),
        Case("tables-per-key", "tables", 20_000, by_keys=True),
        Case("changelog-per-key", "changelog", 20_000, by_keys=True),
    )
}
"""All cases by name, in the order of the report."""

NARROW: Final = ("fk-uniform", "fk-zipf", "fk-final", "tables", "streams")
WIDE: Final = ("fk-wide", "fk-wide-large", "fk-wide-10M", "fk-wide-large-10M")
SHORT: Final = ("fk-short", "fk-short-10M")
ORDERS: Final = ("orders-json", "orders-latest", "orders-parquet")
RECORDS: Final = ("fk-records",)
FOUR: Final = ("tables-four-10M",)
MANY: Final = ("many-few", "many-hot", "many-few-10M")
PER_KEY: Final = ("tables-per-key", "changelog-per-key")


@dataclass(frozen=True)
class Contestant:
    """A program and its options.

    ``cases`` are those of a full run, ``small_cases`` those of a small one. ``share``, ``small_share``: the part of a case's
    size that it is measured at, in thousandths, and that of a small run; a part that is not the whole is extrapolated. ``rounds``: at
    most this many. ``environment``: the one that it runs in, if not the project's. ``format``: what it reads
    in place of the work's format. ``retracts``: how its result says what is inserted and what is deleted
    again, if it does. ``choices``: its settings, by the name that ``--set`` takes, with the values that a search tries.
    """

    title: str
    module: str
    arguments: tuple[str, ...] = ()
    cases: tuple[str, ...] = NARROW
    small_cases: tuple[str, ...] = ()
    share: int = 1000
    small_share: int = 1000
    rounds: int = 100
    environment: str = ""
    format: Format | None = None
    retracts: Retracts = ""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def having(self, settings: Mapping[str, str]) -> "Contestant":
        """The contestant with settings.

        >>> CONTESTANTS["PySpark SQL"].having({"compilers": "both"}).arguments
        ('--set=compilers=both',)
        """
        return replace(self, arguments=(*self.arguments, *(f"--set={name}={value}" for name, value in settings.items())))

    def reads(self, dataset: Dataset) -> Dataset:
        """The dataset in the format that it reads."""
        return replace(dataset, format=self.format) if self.format else dataset

    def measured_size(self, case: Case, *, small: bool) -> int:
        """The size at which it is measured in a case.

        >>> CONTESTANTS["beam_cogroup, Spark"].measured_size(Case("tables", "tables", 1_000_000), small=False)
        100000
        """
        return max(case.size * (self.small_share if small else self.share) // 1000, 1)

    def takes(self, case: Case, *, small: bool) -> bool:
        """Whether it is measured in a case."""
        return case.name in (self.small_cases if small else self.cases)


def _ours(title: str, *options: str, cases: Sequence[str] = (*NARROW, *WIDE), small: Sequence[str] = ()) -> Contestant:
    return Contestant(f"beam_joins, {title}", "beam_joins", options, tuple(cases), tuple(small), choices=_OF_OURS)


def _on(runner: str, program: str, module: str, cases: Sequence[str], small: Sequence[str] = ()) -> Contestant:
    title = "Spark" if runner == "SparkRunner" else runner
    return Contestant(f"{program}, {title}", module, ("--runner", runner), tuple(cases), tuple(small))


def _flink(mode: str, cases: Sequence[str], *, retracts: Retracts = "") -> Contestant:
    return Contestant(
        f"Flink SQL, {mode}", "flink_sql", ("--mode", mode), tuple(cases), environment="flink", retracts=retracts, choices=_OF_FLINK
    )


def _plain_beam(title: str, runner: str, *small: str) -> Contestant:
    return Contestant(
        f"beam_cogroup, {title}", "beam_cogroup", ("--runner", runner), share=100, small_share=100, small_cases=small, rounds=2
    )


PYSPARK: Final = "PySpark SQL"
DUCKDB: Final = "DuckDB"
STATEFUL: Final = "beam_stateful, Spark"
OURS: Final = "beam_joins, Spark, columns"
OURS_RECORDS: Final = "beam_joins, Spark, records"
OURS_DIRECT: Final = "beam_joins, LocalRunner, columns"
OURS_DIRECT_RECORDS: Final = "beam_joins, LocalRunner, records"
COMMANDS: Final = ("pipelines.orders, Spark", "pipelines.orders, LocalRunner")
DICTS: Final = ("beam_joins of dicts, Spark", "beam_joins of dicts, LocalRunner")
BY_RUNNER: Final = tuple(zip((OURS, OURS_DIRECT), COMMANDS, DICTS, strict=True))
"""What a user runs on Spark and on all cores: of each case one takes part."""

_SPARK: Final = ("--runner", "SparkRunner", "--functions")
_DIRECT: Final = ("--runner", "LocalRunner", "--functions")
_OF_PYSPARK: Final = {
    "compilers": ("first", "both"),
    "partitions": ("2", "4", "8", "16"),
    "joins": ("as planned", "shuffled hash"),
    "collector": ("Parallel", "G1", "Serial"),
    "adaptive": ("true", "false"),
    "heap": ("2g", "4g", "8g"),
}
_OF_DUCKDB: Final = {"threads": ("1", "2", "4"), "memory": ("2GB", "8GB"), "order": ("false", "true")}
_OF_FLINK: Final = {"parallelism": ("1", "2", "4"), "managed memory": ("512m", "1g", "2g")}
_OF_OURS: Final = {"partitions": ("2", "4", "16", "64"), "memory": ("256", "512", "2000")}
_SMALL_WIDE: Final = WIDE[:2]

CONTESTANTS: Final = {
    contestant.title: contestant
    for contestant in (
        Contestant(
            DUCKDB,
            "duckdb_sql",
            (),
            tuple(CASES),
            tuple(name for name in CASES if name not in (*WIDE[2:], SHORT[1], MANY[2])),
            choices=_OF_DUCKDB,
        ),
        Contestant(
            PYSPARK,
            "pyspark_sql",
            (),
            (*NARROW, *FOUR, *MANY, *RECORDS, *WIDE, *SHORT, *ORDERS),
            ("fk-uniform", *FOUR, *RECORDS, "fk-wide-large", "orders-json"),
            choices=_OF_PYSPARK,
        ),
        _flink("batch", (*WIDE[:2], ORDERS[1])),
        _flink("streaming", ORDERS[1:2], retracts="debezium"),
        # It reads no Parquet files without a licence key; ten million wide rows would not fit into memory.
        Contestant(
            "Pathway, JSON lines", "pathway_tables", (), (*WIDE[:2], ORDERS[1]), environment="pathway", format="json", retracts="diff"
        ),
        _ours(
            "Spark, columns",
            *_SPARK,
            "columns",
            cases=(*NARROW, *FOUR, *MANY, *WIDE, *SHORT, *PER_KEY),
            small=("fk-uniform", PER_KEY[0]),
        ),
        _ours("Spark, records", *_SPARK, "records", cases=(*NARROW, *WIDE[:2])),
        _ours("Spark, columns, loopback", *_SPARK, "columns", "--environment", "loopback", cases=("fk-uniform",)),
        _ours(
            "LocalRunner, columns",
            *_DIRECT,
            "columns",
            cases=(*NARROW, *FOUR, *MANY, *WIDE, *SHORT),
            small=(*NARROW, *FOUR, *MANY[:2], *_SMALL_WIDE, SHORT[0]),
        ),
        _ours("LocalRunner, records", *_DIRECT, "records", cases=(*NARROW, *WIDE[:2]), small=("fk-uniform", "fk-wide")),
        _on("SparkRunner", "beam_joins of dicts", "beam_joins_dicts", RECORDS),
        _on("LocalRunner", "beam_joins of dicts", "beam_joins_dicts", RECORDS, RECORDS),
        _on("SparkRunner", "pipelines.orders", "orders_command", ORDERS, ORDERS[:1]),
        _on("LocalRunner", "pipelines.orders", "orders_command", ORDERS, ORDERS),
        _plain_beam("Spark", "SparkRunner"),
        _plain_beam("LocalRunner", "LocalRunner", "fk-uniform"),
        Contestant(
            STATEFUL,
            "beam_stateful",
            ("--runner", "SparkRunner"),
            PER_KEY,
            PER_KEY[:1],
            share=50,
            small_share=200,
            rounds=2,
        ),
    )
}
"""All contestants by title, in the order of the report.

A small run has none that needs an environment of its own.
"""


def cases(*, small: bool) -> list[Case]:
    """All cases of a run."""
    return [replace(case, size=case.size // SMALL_SHARE) for case in CASES.values()] if small else list(CASES.values())
