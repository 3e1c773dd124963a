"""The report's arithmetic, and what it says."""

import doctest

import pytest

from benchmarks import works
from benchmarks.data import dataset
from benchmarks.harness import environments, figures, growth_report, lineup, noise, process, publish, report
from benchmarks.harness.figures import Figure, Measured, Run, figure, rounds_of
from benchmarks.harness.growth_report import Grown, growth_table
from benchmarks.harness.lineup import CASES, CONTESTANTS, OURS, PYSPARK, STATEFUL, cases
from benchmarks.harness.report import case_table, target_table
from benchmarks.harness.targets import targets

CASE = next(case for case in cases(small=False) if case.name == "fk-uniform")


@pytest.mark.parametrize(
    "module",
    [dataset, environments, figures, growth_report, lineup, noise, process, publish, report, works],
    ids=lambda module: module.__name__,
)
def test_the_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def runs(*seconds):
    return [Run(each, jvm=1_000_000_000, python=200_000_000) for each in seconds]


def test_work_is_the_median_total_less_the_median_start():
    actual = figure(Measured("c", "x", 100, starts=runs(3, 1, 2), runs={100: runs(12, 30, 11)}, rows={100: 7}))
    assert (actual.start, actual.work, actual.total, actual.rows) == (2, 10, 12, 7)
    assert not actual.extrapolated


def test_a_smaller_size_is_extrapolated_in_proportion():
    actual = figure(Measured("c", "x", 1000, starts=runs(2), runs={100: runs(5)}, rows={100: 7}))
    assert (actual.work, actual.total, actual.extrapolated) == (30, 32, True)


def test_two_sizes_are_extrapolated_along_a_line():
    actual = figure(Measured("c", "x", 20_000, starts=runs(6), runs={200: runs(10), 1000: runs(26)}, rows={200: 1, 1000: 5}))
    assert actual.total == 26 + 19_000 * 16 / 800
    assert actual.measured_at == (200, 1000)
    assert actual.rows == 5


def test_peaks_are_the_highest_of_all_rounds():
    actual = figure(Measured("c", "x", 1, starts=runs(1), runs={1: [Run(2, 5, 6), Run(2, 7, 4)]}, rows={1: 1}))
    assert (actual.jvm, actual.python) == (7, 6)


def made(contestant, start, work, case="fk-uniform", size=1_000_000, **more):
    return Figure(case, contestant, size, start, work, 10**9, 10**8, 42, measured_at=(size,), **more)


def test_a_row_has_ratios_of_work_and_of_total():
    lines = list(case_table(CASE, [made(PYSPARK, 5, 10), made(OURS, 4, 2)]))
    assert lines[-1] == f"| {OURS} | 4.0 s | 2.0 s | 6.0 s | 0.20 | 0.40 | 1.0 GB | 0.10 GB | 42 |"
    assert "orders 1,000,000 rows over 200,000 keys, customers 100,000 rows over 20,000 keys" in lines[2]


def test_a_figure_whose_rows_differ_is_shown_as_such():
    trouble = Figure("fk-uniform", OURS, 10, trouble="differs from DuckDB on 10 rows: 1 missing | x")
    (line,) = [line for line in case_table(CASE, [trouble]) if line.startswith(f"| {OURS}")]
    assert line.startswith(f"| {OURS} | differs from DuckDB on 10 rows: 1 missing \\| x |")


def test_a_contestant_that_cannot_be_installed_is_skipped_and_says_why():
    skipped = Figure("fk-wide", "Flink SQL, batch", 10, trouble="skipped: apache-flink cannot be installed here: no network")
    (line,) = [line for line in case_table(CASE, [skipped]) if line.startswith("| Flink")]
    assert line.startswith("| Flink SQL, batch | skipped: apache-flink cannot be installed here: no network |")
    assert skipped.skipped


def test_an_environment_without_its_packages_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "_call", lambda *command: (_ for _ in ()).throw(RuntimeError("ERROR: no such package")))
    with pytest.raises(environments.Unavailable, match="^pathway cannot be installed here: ERROR: no such package$"):
        environments.provide("pathway", tmp_path)


def test_an_extrapolated_figure_is_marked():
    actual = Figure("fk-uniform", "beam_cogroup, Spark", 1_000_000, 5, 300, 1, 1, 42, measured_at=(100_000,))
    text = "\n".join(case_table(CASE, [actual]))
    assert "| ≈ 300.0 s | ≈ 305.0 s |" in text
    assert "measured at 100,000 rows of the left table, extrapolated to 1,000,000" in text


def test_runs_beside_something_else_are_counted():
    measured = Measured(
        "c", "x", 1, starts=[Run(1, 1, 1, others=0.0)], runs={1: [Run(2, 1, 1, others=0.5), Run(2, 1, 1, others=0.01)]}
    )
    assert figures.disturbed([measured]) == (1, 3)
    assert "1 of 3 runs shared the processors" in report.report([], [], [], (1, 3))
    assert "shared" not in report.report([], [], [], (0, 3))


def kept(*figures):
    return {target.meaning: target for target in targets({(each.case, each.contestant): each for each in figures})}


def test_a_target_is_kept_or_missed_by_work_time():
    actual = kept(made(PYSPARK, 5, 10), made(OURS, 9, 4))
    ours = actual[f"fk-uniform: {OURS} / {PYSPARK}"]
    assert (ours.work, ours.verdict) == (0.4, "kept")
    assert ours.total == 13 / 15
    assert actual[f"tables: {OURS} / {PYSPARK}"].verdict == "not measured"


def test_a_lower_bound_is_kept_from_above():
    stateful = made(STATEFUL, 5, 400, case="tables-per-key", size=20_000)
    actual = kept(stateful, made(OURS, 5, 5, case="tables-per-key", size=20_000), made(OURS, 5, 10))
    assert actual[f"tables-per-key: {STATEFUL} / {OURS}"].verdict == "missed"
    (updates,) = [target for meaning, target in actual.items() if "updates per second" in meaning]
    assert (updates.work, updates.limit, updates.verdict) == (100_000, 110_000, "missed")


def test_a_figure_with_trouble_counts_for_no_target():
    actual = kept(made(PYSPARK, 5, 10), made(OURS, 5, 1, trouble="differs"))
    assert actual[f"fk-uniform: {OURS} / {PYSPARK}"].verdict == "not measured"


def test_work_lies_between_the_fastest_run_after_the_slowest_start_and_the_slowest_run_after_the_fastest_start():
    actual = figure(Measured("c", "x", 100, starts=runs(5, 6), runs={100: runs(12, 11)}, rows={100: 7}))
    assert (actual.work, actual.work_between) == (6, (5, 7))
    actual = figure(Measured("c", "x", 300, starts=runs(5, 5), runs={100: runs(8, 9), 200: runs(13, 12)}, rows={100: 1, 200: 2}))
    assert actual.work_between == (12 - 5.25 + (12 - 9), 13 - 4.75 + (13 - 8))


def test_one_round_may_be_off_by_a_twentieth_of_the_start():
    actual = figure(Measured("c", "x", 100, starts=runs(10), runs={100: runs(13)}, rows={100: 7}))
    assert actual.work_between == (2.5, 3.5)


def measured(contestant, starts, seconds, case="fk-uniform"):
    return figure(Measured(case, contestant, 1_000_000, starts=runs(*starts), runs={1_000_000: runs(*seconds)}, rows={1_000_000: 42}))


@pytest.mark.parametrize(
    ("seconds", "work", "message"),
    [
        ((8, 8.2), "0.22", "kept"),
        ((9.9, 10.5), "0.43", "within noise"),
        ((14, 14.5), "0.84", "missed"),
        ((5.9, 6.1), "too short to tell", "kept"),  # of what is surely no more than half
        ((5.5, 6.0), "too short to tell", "too short to tell"),  # nothing, by the medians
    ],
)
def test_a_difference_that_the_rounds_do_not_show_is_no_verdict(seconds, work, message):
    ours, peer = measured(OURS, (5.8, 6.1), seconds), measured(PYSPARK, (6.0, 6.2), (15.8, 16.2))
    assert kept(peer, ours)[f"fk-uniform: {OURS} / {PYSPARK}"].verdict == message
    (line,) = [line for line in case_table(CASE, [peer, ours]) if line.startswith(f"| {OURS} |")]
    assert f"| {work} |" in line


def test_a_difference_from_a_peer_that_is_too_short_is_no_verdict_either():
    ours, peer = measured(OURS, (5.8, 6.1), (6.9, 6.8), "fk-final"), measured(PYSPARK, (6.0, 7.2), (7.1, 7.3), "fk-final")
    target = kept(peer, ours)[f"fk-final: {OURS} / {PYSPARK}"]
    assert target.verdict == "too short to tell"
    (line,) = [line for line in target_table([target]) if line.startswith("| fk-final")]
    assert line == f"| fk-final: {OURS} / {PYSPARK} | at most 1.00 | 1.50 (0.43 to any) | 0.95 | too short to tell |"


def test_the_range_of_a_target_is_shown():
    ours, peer = measured(OURS, (5, 5), (9, 9)), measured(PYSPARK, (5, 5), (15, 15))
    target = kept(peer, ours)[f"fk-uniform: {OURS} / {PYSPARK}"]
    assert f"| {target.work:.2f} (0.37 to 0.44) |" in "\n".join(target_table([target]))


def test_the_table_of_targets_says_what_was_not_measured():
    assert all(line.endswith("| not measured |") for line in list(target_table(list(targets({}))))[4:])


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


def test_a_report_says_how_many_rounds_its_figures_have():
    once, thrice = (Measured("c", "x", 1, starts=runs(1), runs={1: runs(*seconds)}, rows={1: 1}) for seconds in ((2,), (2, 3, 4)))
    assert (rounds_of([once]), rounds_of([thrice, once]), rounds_of([])) == ((1, 1), (1, 3), (0, 0))
    assert "\n\n1 to 3 rounds of each.\n\n" in report.report([], [], [], rounds=(1, 3))
    assert "\n\n1 round of each.\n\n" in report.report([], [], [], rounds=(1, 1))
