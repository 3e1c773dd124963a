"""Who takes part in what: the contestants, the cases that they are measured on, and at which sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.data.dataset import Dataset, few_ids, of_work

MAIN_WORKS: Final = ("fk-uniform", "fk-zipf", "fk-final", "tables", "streams")
PER_KEY: Final = ("tables-per-key", "changelog-per-key")


@dataclass(frozen=True)
class Case:
    """A work at one size: a number of rows of the left table, or of keys for the cases that are about keys."""

    name: str
    work: str
    size: int
    by_keys: bool = False

    def dataset(self, size: int) -> Dataset:
        """The case's data at some size."""
        return few_ids(size) if self.by_keys else of_work(self.work, size)

    @property
    def unit(self) -> str:
        """What its size counts."""
        return "keys" if self.by_keys else "rows of the left table"


@dataclass(frozen=True)
class Contestant:
    """A program and its options.

    ``shares``: parts of a case's size that it is measured at, in thousandths; a part that is not the whole is extrapolated. ``rounds``:
    at most this many. ``small_cases``: the cases of a small run.
    """

    title: str
    module: str
    arguments: tuple[str, ...] = ()
    cases: tuple[str, ...] = MAIN_WORKS
    small_cases: tuple[str, ...] = MAIN_WORKS
    shares: tuple[int, ...] = (1000,)
    small_shares: tuple[int, ...] | None = None
    rounds: int = 100

    def sizes(self, case: Case, *, small: bool) -> list[int]:
        """The sizes at which it is measured in a case.

        >>> CONTESTANTS["beam_cogroup, Spark"].sizes(Case("tables", "tables", 1_000_000), small=False)
        [100000]
        """
        shares = self.small_shares if small and self.small_shares else self.shares
        return [max(case.size * share // 1000, 1) for share in shares]

    def takes(self, case: Case, *, small: bool) -> bool:
        """Whether it is measured in a case."""
        return case.name in (self.small_cases if small else self.cases)


def _ours(title: str, *options: str, cases: Sequence[str] = MAIN_WORKS, small: Sequence[str] = MAIN_WORKS) -> Contestant:
    return Contestant(f"beam_joins, {title}", "beam_joins", options, tuple(cases), tuple(small))


def _plain_beam(title: str, runner: str) -> Contestant:
    return Contestant(
        f"beam_cogroup, {title}", "beam_cogroup", ("--runner", runner), shares=(100,), small_cases=("fk-uniform",), rounds=2
    )


PYSPARK: Final = "PySpark SQL"
DUCKDB: Final = "DuckDB"
STATEFUL: Final = "beam_stateful, Spark"
OURS: Final = "beam_joins, Spark, columns"
OURS_RECORDS: Final = "beam_joins, Spark, records"
OURS_DIRECT: Final = "beam_joins, DirectRunner, columns"
OURS_DIRECT_RECORDS: Final = "beam_joins, DirectRunner, records"

_SPARK: Final = ("--runner", "SparkRunner", "--functions")
_DIRECT: Final = ("--runner", "DirectRunner", "--functions")

CONTESTANTS: Final = {
    contestant.title: contestant
    for contestant in (
        Contestant(DUCKDB, "duckdb_sql", (), (*MAIN_WORKS, *PER_KEY), (*MAIN_WORKS, *PER_KEY)),
        Contestant(PYSPARK, "pyspark_sql"),
        _ours("Spark, columns", *_SPARK, "columns", cases=(*MAIN_WORKS, *PER_KEY), small=(*MAIN_WORKS, PER_KEY[0])),
        _ours("Spark, records", *_SPARK, "records", small=("fk-uniform",)),
        _ours(
            "Spark, columns, loopback", *_SPARK, "columns", "--environment", "loopback", cases=("fk-uniform",), small=("fk-uniform",)
        ),
        _ours("DirectRunner, columns", *_DIRECT, "columns"),
        _ours("DirectRunner, records", *_DIRECT, "records", small=("fk-uniform",)),
        _plain_beam("Spark", "SparkRunner"),
        _plain_beam("DirectRunner", "DirectRunner"),
        Contestant(
            STATEFUL,
            "beam_stateful",
            ("--runner", "SparkRunner"),
            PER_KEY,
            PER_KEY[:1],
            shares=(10, 50),
            small_shares=(50, 200),
            rounds=2,
        ),
    )
}
"""All contestants by title, in the order of the report."""


def cases(*, small: bool) -> list[Case]:
    """All cases of a run. A small run has a twentieth of the size."""
    rows, keys = (50_000, 1_000) if small else (1_000_000, 20_000)
    main = [Case(work, work, rows) for work in MAIN_WORKS]
    return [*main, *(Case(name, name.removesuffix("-per-key"), keys, by_keys=True) for name in PER_KEY)]
