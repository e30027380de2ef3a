"""The numbers of a report: those of the statistics, the same in tables, figures and files."""

import csv
import io

import numpy as np
import pytest

from mviq.drawing import figures as drawing
from mviq.drawing.panels import value_range
from mviq.drawing.style import looks
from mviq.reports import contrasts
from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.curves import POINTS, RESAMPLES
from mviq.reports.reading import load_study
from mviq.reports.report import Report, make_report, report_files
from mviq.reports.statistics import (
    curve_interval,
    human_normalised,
    interquartile_mean,
    interval,
    mean,
    optimality_gap,
    percent_improvement,
    performance_profile,
    probability_of_improvement,
    referenced_improvement,
)
from stored_runs import curve, name_of, write_plan, write_run, write_study

ENV, OTHER = "CartPole-v1", "Acrobot-v1"
RETURNS = (0.0, 500.0)  # what an episode of CartPole can return
OLD, NEW = [10.0, 30.0, 20.0], [25.0, 60.0, 50.0]
TWO = {
    ("DQN", ENV): [curve(end) for end in OLD],
    ("MVI(2)", ENV): [curve(end) for end in NEW],
}


def report(path, scores, choices=None, **plan) -> Report:
    return make_report(write_study(path, scores, **plan), choices or ReportChoices())


def column(values) -> np.ndarray:
    return np.array(values)[:, None]


def numbers(found: Report, label: str, statistic: str) -> tuple[float, float, float]:
    (row,) = (row for row in found.summary.rows if row.label == label)
    number = row.numbers[statistic]
    return number.estimate, number.low, number.high


def same(found, expected) -> None:
    np.testing.assert_allclose(
        found, [expected.estimate, expected.low, expected.high], rtol=0, atol=1e-12
    )


# Tables


def test_the_summary_is_that_of_the_statistics(tmp_path):
    found = report(tmp_path, TWO, ReportChoices(seed=7), baseline="DQN")
    new, old = column(NEW), column(OLD)
    options = {"seed": 7, "bounds": RETURNS}
    same(numbers(found, "MVI(2)", "mean"), interval(mean, new, **options))
    same(
        numbers(found, "MVI(2)", "interquartile mean"), interval(interquartile_mean, new, **options)
    )
    same(
        numbers(found, "MVI(2)", "P(better than DQN)"),
        interval(probability_of_improvement, new, old, seed=7, bounds=(0, 1)),
    )
    area = column(NEW) * (0.25 + 1) / 2  # a straight line from the first point to the end
    same(
        numbers(found, "MVI(2)", "area under curve"), interval(interquartile_mean, area, **options)
    )
    assert [row.label for row in found.summary.rows] == ["MVI(2)", "DQN"]
    assert [(row.runs, row.planned) for row in found.summary.rows] == [(3, 3)] * 2


def test_intervals_end_where_a_return_must(tmp_path):
    low_and_high = {("DQN", ENV): [curve(0.0), curve(500.0)], ("MVI(2)", ENV): [curve(9.0)] * 2}
    found = report(tmp_path, low_and_high)
    assert numbers(found, "DQN", "mean")[1:] == RETURNS
    elsewhere = {("DQN", "Elsewhere-v0"): [curve(0.0), curve(500.0)]}
    assert report(tmp_path / "other", elsewhere).cells[0].number.high > 500
    said = report(tmp_path / "said", elsewhere, returns={"Elsewhere-v0": (-1.0, 600.0)})
    assert (said.cells[0].number.low, said.cells[0].number.high) == (-1.0, 600.0)
    assert numbers(said, "DQN", "mean")[1:] == (-1.0, 600.0)


@pytest.mark.parametrize(
    ("ends", "told"),
    [((9, 9, 9, 400, 400), True), ((9, 10, 10, 10, 10), False)],
    ids=["higher mean, worse runs", "the same mean, worse runs"],
)
def test_two_statistics_that_point_in_different_directions_are_told(ends, told, tmp_path):
    scores = {
        ("MVI(2)", ENV): [curve(end) for end in ends],  # first, and so first among equals
        ("DQN", ENV): [curve(end) for end in (10, 10, 10, 10, 10)],
    }
    said = " ".join(report(tmp_path, scores, baseline="DQN").conclusion.sentences)
    assert ("The two point in different directions" in said) == told


def test_the_final_score_is_the_mean_of_the_last_points(tmp_path):
    curves = {("DQN", ENV): [list(range(30)), list(range(10, 40))]}
    study = write_study(tmp_path, curves)
    by_default = make_report(study, ReportChoices())  # a tenth of 30 points
    assert by_default.cells[0].number.estimate == (28 + 38) / 2
    assert make_report(study, ReportChoices(last=1)).cells[0].number.estimate == (29 + 39) / 2
    with pytest.raises(ValueError, match=r"last must be at most the 30 points .* got 31"):
        make_report(study, ReportChoices(last=31))


def test_atari_is_averaged_on_the_human_scale(tmp_path):
    games = ("ALE/Pong-v5", "ALE/Breakout-v5")
    ends = np.array([[-10.0, 20.0], [5.0, 40.0], [0.0, 10.0]])
    scores = {("MVI(2)", g): [curve(e) for e in ends[:, i]] for i, g in enumerate(games)}
    scores |= {("DQN", g): [curve(e - 3) for e in ends[:, i]] for i, g in enumerate(games)}
    found = report(tmp_path, scores, baseline="DQN")
    own, old = human_normalised(ends, games), human_normalised(ends - 3, games)
    same(numbers(found, "MVI(2)", "interquartile mean"), interval(interquartile_mean, own))
    same(numbers(found, "MVI(2)", "optimality gap"), interval(optimality_gap, own))
    same(
        numbers(found, "MVI(2)", "P(better than DQN)"),
        interval(probability_of_improvement, own, old, bounds=(0, 1)),
    )
    axes = {panel.title: panel.x_title for panel in found.figures["aggregates"].panels}
    assert axes["Optimality gap"] == "below 1: less is better"
    plain, safe = found.figures["improvement"].panels
    pong = column(ends[:, 0]), column(ends[:, 0] - 3)
    expected = interval(percent_improvement, *pong, per_task=True)
    assert plain.series[0].y[0] == pytest.approx(expected.estimate[0])
    safe_one = referenced_improvement(*pong, -20.7, 14.6)[0]
    assert safe.series[0].y[0] == pytest.approx(safe_one)


def test_other_environments_are_scaled_within_the_study(tmp_path):
    scores = {
        ("DQN", ENV): [curve(0), curve(10)],
        ("MVI(2)", ENV): [curve(20), curve(40)],
        ("DQN", OTHER): [curve(-200), curve(-100)],
        ("MVI(2)", OTHER): [curve(-100), curve(-100)],
    }
    found = report(tmp_path, scores)
    own = found.comparison.scaled("final")
    np.testing.assert_allclose(own["DQN"], [[0, 0], [0.25, 1]])
    np.testing.assert_allclose(own["MVI(2)"], [[0.5, 1], [1, 1]])
    raw = {(cell.label, cell.env): cell.number.estimate for cell in found.cells}
    assert raw["DQN", OTHER] == -150
    assert "optimality gap" not in found.summary.columns


def test_the_safe_formula_holds_where_the_baseline_is_zero(tmp_path):
    scores = {("DQN", ENV): [curve(0), curve(0)], ("MVI(2)", ENV): [curve(4), curve(8)]}
    plain, safe = report(tmp_path, scores, baseline="DQN").figures["improvement"].panels
    assert np.isnan(plain.series[0].y[0])
    near = {**scores, ("DQN", ENV): [curve(-4), curve(4), curve(8)]}
    caption = report(tmp_path / "near", near, baseline="DQN").figures["improvement"].caption
    assert "no interval in CartPole-v1: the baseline can be zero" in caption
    floor = contrasts.FLOOR_SHARE * 8
    assert safe.series[0].y[0] == pytest.approx(100 * 6 / floor)


# What is missing


def test_a_missing_seed_is_counted_and_the_others_are_compared(tmp_path):
    write_study(tmp_path, TWO)
    runs = [(label, ENV, seed) for label in ("DQN", "MVI(2)") for seed in range(4)]
    write_plan(tmp_path, runs)
    found = make_report(tmp_path, ReportChoices())
    assert [(row.runs, row.planned) for row in found.summary.rows] == [(3, 4)] * 2
    same(numbers(found, "DQN", "mean"), interval(mean, column([*OLD, np.nan]), bounds=RETURNS))
    assert (
        "2 of 8 runs have not ended: 2 not begun. They are missing here."
        in found.conclusion.cautions
    )


def test_runs_of_unequal_length_are_cut_and_that_is_said(tmp_path):
    scores = {("DQN", ENV): [[1, 2, 3, 4], [5, 6]], ("MVI(2)", ENV): [[3, 4, 5]]}
    found = report(tmp_path, scores)
    assert found.comparison.environments[0].steps.tolist() == [100, 200]
    assert found.cells[0].number.estimate == 4
    notes = "; ".join(found.comparison.notes)
    assert "DQN: cut after step 200, where CartPole-v1, seed 1 ends" in notes
    assert "MVI(2): cut at step 200, where DQN ends" in notes
    assert (
        "Runs in CartPole-v1 have different lengths: all are compared at step 200, where the "
        "shortest ends, not at 400."
    ) in found.conclusion.cautions


def test_a_finished_run_with_a_file_that_was_cut_off_is_named(tmp_path):
    study = write_study(tmp_path, TWO)
    file = study / "runs" / name_of("DQN", ENV, 0) / "evaluations.csv"
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:-2]))  # without its last evaluation
    cautions = make_report(study, ReportChoices()).conclusion.cautions
    run = "DQN, CartPole-v1, seed 0 (step 300 of 400)"
    assert (
        f"Later scores are missing from 1 finished run: {run}. The files are damaged." in cautions
    )


def test_diverged_runs_keep_their_last_score_and_the_reader_is_told(tmp_path):
    write_study(tmp_path, TWO)
    bad = name_of("MVI(2)", ENV, 3)
    write_run(tmp_path / "runs" / bad, [-99.0], steps=[100], status="diverged", seed=3)
    runs = [
        (label, ENV, seed) for label, seeds in (("DQN", 3), ("MVI(2)", 4)) for seed in range(seeds)
    ]
    write_plan(tmp_path, runs)
    found = make_report(tmp_path, ReportChoices())
    (row,) = (row for row in found.summary.rows if row.label == "MVI(2)")
    assert (row.runs, row.planned, row.diverged) == (4, 4, 1)
    assert found.comparison.environments[0].curves["MVI(2)"][3].tolist() == [-99.0] * 4
    diverged = "1 of 7 runs diverged: 1 of MVI(2). "
    assert f"{diverged}They keep their last score." in found.conclusion.cautions
    (tmp_path / "runs" / bad / "evaluations.csv").write_text("step,episode,return,length\n")
    none = f"{diverged}They keep their last score. 1 of them had none yet, and is missing."
    assert none in make_report(tmp_path, ReportChoices()).conclusion.cautions
    survivors = make_report(tmp_path, ReportChoices(which="finished"))
    (row,) = (row for row in survivors.summary.rows if row.label == "MVI(2)")
    assert (row.runs, row.planned, row.diverged) == (3, 4, 1)
    assert f"{diverged}Leaving them out flatters the scores." in survivors.conclusion.cautions


def test_one_run_has_no_interval_and_no_certainty(tmp_path):
    scores = {("DQN", ENV): [curve(5)], ("MVI(2)", ENV): [curve(9)]}
    found = report(tmp_path, scores)
    assert np.isnan(numbers(found, "DQN", "mean")[1:]).all()
    assert found.conclusion.headline == "MVI(2) is ahead, but not clearly"
    assert "the uncertainty is unknown" in found.conclusion.sentences[1]
    assert not found.summary.chances
    assert not any("probability" in sentence for sentence in found.conclusion.sentences)
    assert report_files(found)  # figures without bands


def test_finished_runs_without_a_score_are_counted(tmp_path):
    study = write_study(tmp_path, {**TWO, ("MVI(2)", ENV): [[1, np.inf, 3, 4], [1, 2, 3, np.inf]]})
    (study / "runs" / name_of("DQN", ENV, 0) / "evaluations.csv").write_text("when,what\n100,1\n")
    found = make_report(study, ReportChoices())
    assert [(row.label, row.runs) for row in found.summary.rows] == [("DQN", 2), ("MVI(2)", 1)]
    assert found.conclusion.cautions[:2] == (
        "No score from 2 finished runs: 1 of DQN, 1 of MVI(2).",
        "Not finite, and left out: 2 points of learning curves.",
    )


def test_of_two_labels_an_environment_without_a_score_of_one_is_left_out(tmp_path):
    write_study(tmp_path, {**TWO, ("DQN", OTHER): [curve(3), curve(4)]}, baseline="DQN")
    found = make_report(tmp_path, ReportChoices())
    assert [e.env for e in found.comparison.shared] == [ENV]
    said = f"Not in these averages: {OTHER} (no score of MVI(2)). They are over {ENV} alone."
    assert found.conclusion.cautions[0] == said
    assert {row.label: (row.runs, row.planned) for row in found.summary.rows} == {
        "DQN": (3, 5),
        "MVI(2)": (3, 3),
    }
    page = report_files(found, ["html"])["report.html"].decode()
    assert "2 algorithms · 1 averaged of 2 environments" in page
    assert found.figures["aggregates"].caption.startswith(f"Final scores over {ENV}, ")
    assert len(found.figures["learning-curves"].panels) == 2


def test_of_three_labels_the_one_without_a_score_somewhere_is_not_ranked(tmp_path):
    others = {("DQN", OTHER): [curve(3)] * 3, ("M-DQN", OTHER): [curve(4)] * 3}
    write_study(tmp_path, {**TWO, ("M-DQN", ENV): [curve(x) for x in NEW], **others})
    found = make_report(tmp_path, ReportChoices())
    assert [e.env for e in found.comparison.shared] == [ENV, OTHER]
    assert found.conclusion.cautions[0] == f"Not ranked: MVI(2) (no score in {OTHER})."
    last = found.summary.rows[-1]
    assert (last.label, last.numbers, last.runs, last.planned) == ("MVI(2)", {}, 0, 3)
    assert "MVI(2)" in found.figures["learning-curves"].labels


def test_a_study_that_has_only_begun_has_a_report(tmp_path):
    write_plan(tmp_path, [("DQN", ENV, 0), ("MVI(2)", ENV, 0)], baseline="DQN")
    found = make_report(tmp_path, ReportChoices())
    assert found.conclusion.headline == "No score yet"
    assert b"not begun" in report_files(found)["report.html"]


def test_a_study_without_evaluations_asks_for_the_training_return(tmp_path):
    write_run(tmp_path / "run", curve(8), evaluated=False)
    with pytest.raises(ValueError, match=r"no run has mean raw return .* use --metric train"):
        make_report(tmp_path, ReportChoices())
    found = make_report(tmp_path, ReportChoices(metric="train"))
    assert found.cells[0].number.estimate == 4


def test_a_baseline_that_is_not_there_is_named(tmp_path):
    write_study(tmp_path, TWO)
    with pytest.raises(ValueError, match=r"baseline must be one of DQN, MVI\(2\), got 'PPO'"):
        make_report(tmp_path, ReportChoices(baseline="PPO"))
    write_study(tmp_path / "other", TWO, baseline="AL")
    with pytest.raises(ValueError, match=r"got 'AL' from the study file"):
        make_report(tmp_path / "other", ReportChoices())


def test_a_baseline_is_found_without_regard_to_case(tmp_path):
    found = compare(load_study(write_study(tmp_path, TWO)), ReportChoices(baseline="mvi(2)"))
    assert found.baseline == "MVI(2)"


def test_without_a_word_on_the_baseline_it_is_dqn(tmp_path):
    scores = {("MVI(2)", ENV): TWO["MVI(2)", ENV], ("DQN", ENV): TWO["DQN", ENV]}
    assert compare(load_study(write_study(tmp_path, scores)), ReportChoices()).baseline == "DQN"


# The answer


def test_the_headline_is_sure_only_if_the_interval_is(tmp_path):
    near = {
        ("DQN", ENV): [curve(x) for x in (1, 5, 9)],
        ("MVI(2)", ENV): [curve(x) for x in (2, 6, 9)],
    }
    far = {
        ("DQN", ENV): [curve(x) for x in (1, 2, 3)],
        ("MVI(2)", ENV): [curve(x) for x in (21, 22, 23)],
    }
    level = {("DQN", ENV): [curve(x) for x in (1, 2)], ("MVI(2)", ENV): [curve(x) for x in (1, 2)]}
    said = [
        report(tmp_path / str(i), s).conclusion.headline for i, s in enumerate((near, far, level))
    ]
    assert said == [
        "MVI(2) is ahead, but not clearly",
        "MVI(2) scores highest",
        "DQN and MVI(2) are level",
    ]


def test_few_runs_that_do_not_differ_decide_nothing(tmp_path):
    ends = {"DQN": 3, "MVI(2)": 9}
    few, enough = (
        report(tmp_path / str(n), {(label, ENV): [curve(x)] * n for label, x in ends.items()})
        for n in (3, 4)
    )
    assert few.conclusion.headline == "MVI(2) is ahead, but not clearly"
    assert "the interval has no width, but 3 runs are too few" in few.conclusion.sentences[1]
    assert enough.conclusion.headline == "MVI(2) scores highest"


def test_a_probability_without_width_is_called_uncertain_if_one_is_shown(tmp_path):
    ends = {(0, ENV): (1, 2, 3), (0, OTHER): (4, 5, 6), (1, ENV): (7, 8, 9), (1, OTHER): (1, 2, 3)}
    names = ("DQN", "MVI(2)")
    apart = {(names[i], env): [curve(x) for x in own] for (i, env), own in ends.items()}
    one = {(names[0], ENV): [curve(1)], (names[1], ENV): [curve(2)]}
    found, single = report(tmp_path / "apart", apart), report(tmp_path / "one", one)
    assert numbers(found, "MVI(2)", "P(better than DQN)") == (0.5, 0.5, 0.5)
    assert "A probability whose interval has no width" in "".join(found.conclusion.cautions)
    assert single.conclusion.cautions == (
        "Only 1 run per environment and label: read this as a first look.",
    )


# Figures


def test_curves_and_profiles_are_those_of_the_statistics(tmp_path):
    found = report(tmp_path, TWO)
    series = found.figures["learning-curves"].panels[0].series[1]
    curves = np.array([curve(end) for end in NEW])[:, None]
    expected = curve_interval(mean, curves, resamples=RESAMPLES, bounds=RETURNS)
    np.testing.assert_array_equal(
        [series.y, series.low, series.high], list(vars(expected).values())
    )
    profile = found.figures["profiles"].panels[0].series[1]
    shares = performance_profile(column(NEW), profile.x)
    np.testing.assert_array_equal(profile.y, shares)


def test_the_csv_of_a_figure_is_what_is_drawn(tmp_path):
    found = report(tmp_path, TWO)
    contents = report_files(found, ["csv"])
    for data in (*found.figures.values(), *found.diagnostics):
        rows = list(csv.DictReader(io.StringIO(contents[f"figures/{data.name}.csv"].decode())))
        figure = drawing.draw(data, found.looks)
        for axes, panel in zip(figure.axes, data.panels, strict=False):
            own = [row for row in rows if row["panel"] == panel.title]
            written = sorted(float(row["y"]) for row in own)
            np.testing.assert_allclose(sorted(_drawn(axes, data.kind, len(panel.series))), written)


def _drawn(axes, kind: str, labels: int) -> list[float]:
    if kind == "bars":
        return [bar.get_width() for bar in axes.patches]
    if kind == "intervals":
        return [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o"]
    return [float(y) for line in axes.lines[:labels] for y in line.get_ydata()]


def test_long_curves_are_thinned_and_keep_their_end(tmp_path):
    long = {("DQN", ENV): [np.arange(1000.0).tolist()]}
    series = report(tmp_path, long).figures["learning-curves"].panels[0].series[0]
    assert len(series.x) == POINTS
    assert series.x[-1] == 100_000
    assert series.y[-1] == 999


def test_environments_of_different_length_share_an_axis_in_per_cent(tmp_path):
    scores = {("DQN", ENV): [curve(4), curve(8)], ("DQN", OTHER): [curve(1, 8), curve(3, 8)]}
    panel = report(tmp_path, scores).figures["sample-efficiency"].panels[0]
    assert panel.x_title == "% of the training steps"
    assert (panel.series[0].x[0], panel.series[0].x[-1]) == (25, 100)
    assert panel.series[0].y[-1] == pytest.approx(0.5)  # lowest and highest run of both


def test_a_band_much_higher_than_the_lines_is_cut_by_the_frame(tmp_path):
    ends = {"DQN": (10, 30, 20, 90, -60), "MVI(2)": (25, 60, 50, 0, 0)}
    scores = {(label, ENV): [curve(end) for end in own] for label, own in ends.items()}
    panel = report(tmp_path, scores).figures["learning-curves"].panels[0]
    low, high = value_range(panel)
    lines = np.concatenate([series.y for series in panel.series])
    assert low < lines.min() < lines.max() < high
    assert max(series.high.max() for series in panel.series) > high


def test_few_runs_are_drawn_themselves_and_many_with_a_band(tmp_path):
    ends = {"DQN": OLD, "MVI(2)": [*NEW, 1.0, 90.0]}
    scores = {(label, ENV): [curve(end) for end in own] for label, own in ends.items()}
    found = report(tmp_path, scores)
    data = found.figures["learning-curves"]
    few, many = data.panels[0].series
    assert many.runs is None
    np.testing.assert_array_equal(few.runs, [curve(end) for end in OLD])
    assert not np.isnan(few.low).any()  # for the CSV file
    axes = drawing.draw(data, found.looks).axes[0]
    assert (len(axes.lines), len(axes.collections)) == (2 + 3, 1)
    assert "Thin lines: single runs. From 5 runs on" in data.caption
    low, high = value_range(data.panels[0])
    assert low < min(OLD) / 4 < max(OLD) < high


def test_intervals_of_diagnostics_stay_where_values_can_be(tmp_path):
    scores = {("MVI(2)", ENV): [curve(end) for end in (1.0, 9.0, 400.0)]}
    (data,) = report(tmp_path, scores).diagnostics
    assert {panel.title: panel.series[0].low.min() for panel in data.panels} == {
        "Tsallis entropy": 0,
        "Support size": 1,
    }


def test_a_whisker_that_the_frame_cuts_has_an_arrowhead(tmp_path):
    found = report(tmp_path, TWO, baseline="DQN")
    figure = drawing.draw(found.figures["improvement"], found.looks)
    heads = [line.get_marker() for line in figure.axes[0].lines if line.get_marker() in ("<", ">")]
    assert heads == [">"]  # the lower end is inside
    assert len(figure.legends[0].get_patches()) == 1  # bars, not lines


def test_labels_of_all_kinds_can_be_drawn(tmp_path):
    labels = ["_hidden", "$x^2$ and \\frac", "<b>bold</b> & more", "a" * 80, "箱 🎲"]
    scores = {(label, ENV): [curve(i), curve(i + 1)] for i, label in enumerate(labels)}
    found = report(tmp_path, scores)
    svg = report_files(found, ["svg"])["figures/learning-curves.svg"].decode()
    assert svg.startswith("<?xml")
    assert [text.get_text() for text in _legend(found)] == [
        *("\u200b_hidden", "\\$x^2\\$ and \\frac", labels[2], f"{'a' * 18}…{'a' * 18}", "箱 🎲"),
    ]


def _legend(found: Report):
    return drawing.draw(found.figures["learning-curves"], found.looks).legends[0].get_texts()


def test_forty_labels_look_different():
    found = looks([str(i) for i in range(40)])
    assert len({(look.colour, look.dashes) for look in found.values()}) == 40


def test_thirty_labels_have_room_and_stay_apart(tmp_path):
    settings = "temperature=0.03 munchausen_alpha=0.9 learning_rate=0.001 network=mlp hidden=32,32"
    labels = [f"{i} MVI(2) {settings.replace('0.9', str(i))} critic=scalar" for i in range(30)]
    found = report(tmp_path, {(label, ENV): [[float(i)]] for i, label in enumerate(labels)})
    assert len({look.name for look in found.looks.values()}) == 30
    for data in found.figures.values():
        figure = drawing.draw(data, found.looks)
        whole = figure.get_window_extent()
        boxes = [axes.get_window_extent() for axes in figure.axes]
        assert all(box.width > 0.2 * whole.width for box in boxes)
        assert all(box.height > 0.2 * whole.height for box in boxes)
        legends = [legend.get_window_extent() for legend in figure.legends]
        assert len(legends) == (data.kind != "intervals")
        assert not any(legend.overlaps(box) for legend in legends for box in boxes)
        assert all(legend.y0 >= 0 and legend.width < whole.width for legend in legends)


# Files


def test_the_same_files_give_the_same_report_wherever_they_are(tmp_path):
    one, two = (report_files(report(tmp_path / place, TWO)) for place in ("here", "there"))
    assert one.keys() == two.keys()
    assert one == two


def test_every_figure_comes_in_every_format(tmp_path):
    found = report(tmp_path, TWO, baseline="DQN")
    names = {data.name for data in (*found.figures.values(), *found.diagnostics)}
    assert names == {
        *("learning-curves", "aggregates", "improvement-probability", "sample-efficiency"),
        *("profiles", "improvement", "diagnostics-CartPole-v1"),
    }
    expected = {f"figures/{name}.{suffix}" for name in names for suffix in ("png", "svg", "csv")}
    tables = {"summary.csv", "scores.csv", "stability.csv"}
    assert set(report_files(found)) == expected | tables | {"report.html"}
    assert set(report_files(found, ["png"])) == {name for name in expected if name.endswith("png")}


def test_scores_of_every_run_are_in_a_table(tmp_path):
    contents = report_files(report(tmp_path, TWO), ["csv"])
    rows = list(csv.DictReader(io.StringIO(contents["scores.csv"].decode())))
    assert [float(row["final"]) for row in rows] == [*OLD, *NEW]
    summary = list(csv.DictReader(io.StringIO(contents["summary.csv"].decode())))
    assert float(summary[0]["estimate"]) == pytest.approx(45)
