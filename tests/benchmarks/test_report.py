"""The report's arithmetic, and what it says."""

import doctest

import pytest

from benchmarks import works
from benchmarks.data import dataset
from benchmarks.harness import environments, figures, growth_report, lineup, process, publish, report, targets
from benchmarks.harness.figures import Figure, Measurement, Run, figure, keep, kept
from benchmarks.harness.growth_report import Grown, growth_table
from benchmarks.harness.lineup import CASES, CONTESTANTS, DUCKDB, OURS, OURS_DIRECT, PYSPARK, STATEFUL, Case, cases
from benchmarks.harness.process import ContestantFailed
from benchmarks.harness.report import case_table, first_table, ratio_table, target_table
from benchmarks.harness.rounds import Rounds
from benchmarks.harness.targets import Target, held

CASE = CASES["fk-uniform"]


@pytest.mark.parametrize(
    "module",
    [dataset, environments, figures, growth_report, lineup, process, publish, report, targets, works],
    ids=lambda module: module.__name__,
)
def test_the_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def runs(*seconds):
    return [Run(each, jvm=1_000_000_000, python=200_000_000, processor=2 * each) for each in seconds]


def test_a_figure_is_the_median_of_rounds_and_keeps_them_all():
    actual = figure("x", 100, [3, 1, 2], runs(12, 30, 11), rows=7, measured_at=100)
    assert (actual.start, actual.total, actual.between, actual.processor, actual.rows) == (2, 12, (11, 30), 24, 7)
    assert not actual.extrapolated


def test_a_smaller_size_is_extrapolated_in_proportion_to_what_it_took_beyond_the_start():
    actual = figure("x", 1000, [2], runs(5), rows=7, measured_at=100)
    assert (actual.total, actual.extrapolated) == (32, True)


def test_peaks_are_the_highest_of_all_rounds():
    actual = figure("x", 1, [1], [Run(2, 5, 6), Run(2, 7, 4)], rows=1, measured_at=1)
    assert (actual.jvm, actual.python) == (7, 6)


def made(contestant, start, *totals, size=1_000_000, **more):
    return Figure(contestant, size, start, totals, 8.0, 10**9, 10**8, 42, measured_at=size, **more)


def of(case, *figures, **more):
    return Measurement(case, "two cores.", figures, **more)


def line_of(contestant, lines):
    (line,) = [line for line in lines if line.startswith(f"| {contestant} |")]
    return line


def test_a_row_has_the_total_its_range_and_its_part_of_the_total_of_pyspark():
    lines = list(case_table(CASE, of("fk-uniform", made(PYSPARK, 5, 15), made(OURS, 4, 5, 6, 8))))
    assert line_of(OURS, lines) == f"| {OURS} | 4.0 s | 6.0 s (5.0 to 8.0) | 0.40 | 8.0 s | 1.0 GB | 0.10 GB | 42 |"
    assert line_of(PYSPARK, lines) == f"| {PYSPARK} | 5.0 s | 15.0 s | 1.00 | 8.0 s | 1.0 GB | 0.10 GB | 42 |"
    assert "orders 1,000,000 rows over 200,000 keys, customers 100,000 rows over 20,000 keys" in lines[2]


def test_a_figure_whose_rows_differ_is_shown_as_such():
    trouble = Figure(OURS, 10, trouble="differs from DuckDB on 10 rows: 1 missing | x")
    assert f"| {OURS} | differs from DuckDB on 10 rows: 1 missing \\| x |" in "\n".join(case_table(CASE, of("fk-uniform", trouble)))


def test_a_contestant_that_cannot_be_installed_is_skipped_and_says_why():
    skipped = Figure("Flink SQL, batch", 10, trouble="skipped: apache-flink cannot be installed here: no network")
    line = line_of("Flink SQL, batch", case_table(CASES["fk-wide"], of("fk-wide", skipped)))
    assert line.startswith("| Flink SQL, batch | skipped: apache-flink cannot be installed here: no network |")
    assert skipped.skipped


def test_an_environment_without_its_packages_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "_call", lambda *command: (_ for _ in ()).throw(RuntimeError("ERROR: no such package")))
    with pytest.raises(environments.Unavailable, match="^pathway cannot be installed here: ERROR: no such package$"):
        environments.provide("pathway", tmp_path)


def test_an_extrapolated_figure_is_marked():
    actual = Figure("beam_cogroup, Spark", 1_000_000, 5, (305.0,), 10.0, 1, 1, 42, measured_at=100_000)
    text = "\n".join(case_table(CASE, of("fk-uniform", actual)))
    assert "| 5.0 s | ≈ 305.0 s |" in text
    assert "measured at 100,000 rows of the left table, extrapolated to 1,000,000" in text


def test_a_case_says_how_many_of_its_runs_were_disturbed():
    assert "Runs that other programs slowed down: 2." in list(case_table(CASE, of("fk-uniform", made(OURS, 1, 2), disturbed=2)))


def test_a_report_says_which_cases_another_machine_measured():
    one, other = of("fk-uniform", made(OURS, 1, 2)), Measurement("tables", "four cores.", (made(OURS, 1, 2),))
    every = [CASES["fk-uniform"], CASES["tables"]]
    assert report.report(every, {"fk-uniform": one}).startswith("two cores.\n\n### fk-uniform")
    assert report.report(every, {"fk-uniform": one, "tables": other}).startswith("fk-uniform: two cores.\n\ntables: four cores.\n\n")


def verdicts(*measured):
    return {each.meaning: each for each in held({each.case: each for each in measured})}


@pytest.mark.parametrize(("totals", "verdict"), [((10, 11), "kept"), ((11, 13), "within noise"), ((13, 14), "missed")])
def test_a_target_is_kept_or_missed_where_all_rounds_are(totals, verdict):
    actual = verdicts(of("fk-uniform", made(PYSPARK, 5, 16), made(OURS, 9, *totals)))
    assert actual[f"fk-uniform: {OURS} / {PYSPARK}"].verdict == verdict
    assert actual[f"tables: {OURS} / {PYSPARK}"].verdict == "not measured"


def test_a_target_of_another_peer_and_a_lower_bound_are_held():
    stateful = of("tables-per-key", made(STATEFUL, 5, 400, size=20_000), made(OURS, 5, 10, size=20_000))
    short = of("fk-short-10M", made(DUCKDB, 1, 10), made(OURS_DIRECT, 5, 14))
    actual = verdicts(stateful, short, of("fk-uniform", made(OURS, 5, 10)))
    assert actual[f"tables-per-key: {STATEFUL} / {OURS}"].verdict == "missed"
    assert actual[f"fk-short-10M: {OURS_DIRECT} / {DUCKDB}"].value == 1.4
    (updates,) = [target for meaning, target in actual.items() if "updates per second" in meaning]
    assert (updates.value, updates.limit, updates.verdict) == (100_000, 110_000, "missed")


def test_a_figure_with_trouble_counts_for_no_target():
    actual = verdicts(of("fk-uniform", made(PYSPARK, 5, 10), made(OURS, 5, 1, trouble="differs")))
    assert actual[f"fk-uniform: {OURS} / {PYSPARK}"].verdict == "not measured"


def test_the_range_of_a_target_is_shown():
    actual = held({"fk-uniform": of("fk-uniform", made(PYSPARK, 5, 20, 25), made(OURS, 5, 10))})
    assert f"| fk-uniform: {OURS} / {PYSPARK} | at most 0.75 | 0.44 (0.40 to 0.50) | kept |" in list(target_table(actual))


def test_the_table_of_targets_says_what_was_not_measured():
    assert all(line.endswith("| not measured |") for line in list(target_table(held({})))[4:])


def test_targets_are_of_cases_that_both_take_part_in():
    for target in targets.TARGETS:
        assert isinstance(target, Target)
        assert all(CONTESTANTS[name].takes(CASES[target.case], small=False) for name in (target.contestant, target.peer))


def test_a_measurement_replaces_that_of_its_case_in_the_order_of_cases(tmp_path):
    file = tmp_path / "figures.json"
    file.write_text("[]")
    for measured in (of("tables", made(OURS, 1, 2)), of("fk-uniform", made(OURS, 1, 2, 3)), of("tables", made(OURS, 1, 9))):
        keep(measured, CASES, file)
    assert list(kept(file).values()) == [of("fk-uniform", made(OURS, 1, 2, 3)), of("tables", made(OURS, 1, 9))]


def test_the_pages_say_what_the_kept_figures_and_settings_say():
    for each in publish.generated():
        page = each.page.read_text(encoding="utf-8")
        assert publish.replaced(page, each.text, each.part) == page, f"{each.page}: python -m benchmarks.harness.publish"


def test_the_tables_for_readers_have_the_totals_and_their_parts_of_the_total_of_pyspark():
    measured = {"fk-uniform": of("fk-uniform", made(DUCKDB, 0.2, 1), made(PYSPARK, 5, 10), made(OURS, 4, 6), made(OURS_DIRECT, 2, 3))}
    assert "| PySpark SQL, written by hand | 10.0 s | 5.0 s |" in first_table(measured)
    (line,) = ratio_table(CASES.values(), measured).splitlines()[2:]
    assert line.endswith("| 10.0 s | 0.60 | 0.30 | DuckDB 0.10 |")


def test_every_case_has_a_reference_and_small_cases_are_a_part_of_all():
    for case in cases(small=True):
        takes_part = [each.title for each in CONTESTANTS.values() if each.takes(case, small=True)]
        assert not takes_part or "DuckDB" in takes_part
    assert all(set(each.small_cases) <= set(each.cases) <= set(CASES) for each in CONTESTANTS.values())


def test_the_generated_part_of_a_page_needs_its_marks():
    with pytest.raises(ValueError, match="needs the marks <!-- measured: begin -->"):
        publish.replaced("no marks", "new")


def test_growth_is_shown_per_million():
    good = Grown("changes", 4_000_000, "ours", 4_000_000, start=5, work=8, jvm=10**9, python=10**8, memory=2 * 10**9)
    text = growth_table([good, Grown("partitions", 4, "ours", 10, trouble="ended with code 1: no memory")])
    assert "| changes of orders | 4,000,000 | ours | 5.0 s | 8.0 s | 2.0 s | 1.0 GB | 0.10 GB | 2.0 GB |" in text
    assert "ended with code 1" in text


def test_growth_that_a_start_may_hide_is_too_short_to_tell():
    text = growth_table([Grown("changes", 100_000, "ours", 100_000, start=5.8, work=0.1, python=10**8, too_short=True)])
    assert "| 5.8 s | too short to tell | too short to tell | - |" in text


class Scripted(Rounds):
    """Rounds whose processes are made up: each takes the seconds, and shares the machine with others, as a script says."""

    def __init__(self, data, script, **more):
        super().__init__(data, **more)
        self._script = iter(script)

    def _checked(self, work, contestant, dataset, scratch):
        seconds, others = next(self._script)
        if seconds is None:
            raise ContestantFailed("ended with code 1: no memory")
        return Run(seconds, 1, 1, others), type("Rows", (), {"rows": 7})()


SMALL = Case("tables", "tables", 100)


def test_a_run_that_others_slowed_down_is_repeated_and_the_quieter_one_counts(tmp_path):
    script = [(1, 0), (2, 0.0), (9, 0.5), (5, 0.01), (2, 0.0), (9, 0.5), (12, 0.6)]
    measured = Scripted(tmp_path, script, small=False).measure(SMALL, [CONTESTANTS[DUCKDB]], 2)
    assert (measured.of(DUCKDB).totals, measured.disturbed) == ((5, 9), 1)


def test_a_contestant_that_fails_is_not_started_again(tmp_path):
    measured = Scripted(tmp_path, [(1, 0), (2, 0), (None, 0)], small=False).measure(SMALL, [CONTESTANTS[DUCKDB]], 3)
    assert measured.figures[0].trouble == "ended with code 1: no memory"
    assert measured.of(DUCKDB) is None
