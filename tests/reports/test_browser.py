"""The page in a real Chromium: it draws, sorts, switches, fits a phone, and knows the dark."""

import json
import os

import pytest

from chromium import launch_options
from mviq.reports.comparison import ReportChoices
from mviq.reports.report import make_report, report_files
from mviq.reports.statistics import ATARI
from stored_runs import curve, name_of, write_plan, write_run, write_study

ENVS = ("CartPole-v1", "Acrobot-v1")
EVIL = "evil <img src=x onerror=\"console.error('run')\"></script> costs $1 or $2"
ENDS = {"DQN": (3, 5, 4), "MVI(2)": (9, 8, 11), EVIL: (6, 2, 7)}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    options = launch_options()
    if options is None:
        reason = "no Chromium: neither from npm ('make browser') nor installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(**options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    study = tmp_path_factory.mktemp("study")
    scores = {
        (label, env): [curve(end, 12) for end in ends]
        for label, ends in ENDS.items()
        for env in ENVS
    }
    write_study(study, scores)
    how = {"seed": 3, "status": "diverged", "total_steps": 1200}
    write_run(study / "runs" / name_of("DQN", ENVS[0], 3), curve(1), **how)
    runs = [(label, env, seed) for label, env in scores for seed in range(3)]
    write_plan(study, [*runs, ("DQN", ENVS[0], 3)], baseline="DQN")
    page = study / "report.html"
    page.write_bytes(report_files(make_report(study, ReportChoices()), ["html"])["report.html"])
    return page.as_uri()


@pytest.fixture(scope="module")
def atari(tmp_path_factory):
    """A page with twenty games."""
    study = tmp_path_factory.mktemp("atari")
    games = [f"ALE/{game}-v5" for game in list(ATARI)[:20]]
    ends = {"DQN": 10.0, "M-DQN": 500.0, "MVI(2)": 900.0}
    scores = {(label, game): [[end], [end + 9]] for label, end in ends.items() for game in games}
    write_study(study, scores)
    page = study / "report.html"
    page.write_bytes(report_files(make_report(study, ReportChoices()), ["html"])["report.html"])
    return page.as_uri()


@pytest.fixture
def open_page(browser, address):
    """Open the page, and complain at the end if the browser did."""
    complaints, contexts = [], []

    def opened(viewport=DESKTOP, color_scheme="light", address=address):
        context = browser.new_context(viewport=viewport, color_scheme=color_scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"asked for {request.url}"))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def draw_all(page):
    """Scroll through the whole page, so that every plot comes near the screen."""
    page.evaluate("document.querySelectorAll('details').forEach((details) => details.open = true)")
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_function(
        "document.querySelectorAll('.plot').length === "
        "document.querySelectorAll('.plot[data-drawn]').length"
    )


def traces(page, figure: str, panel: int = 0) -> list[dict]:
    place = f'.plot[data-figure="{figure}"][data-panel="{panel}"]'
    page.locator(place).scroll_into_view_if_needed()
    page.locator(f"{place}[data-drawn]").wait_for()
    text = page.locator(place).evaluate("(plot) => JSON.stringify(plot.data)")
    return json.loads(text)


def means(page, figure: str) -> list[dict]:
    """Return the traces under the pointer: neither bands nor single runs."""
    return [trace for trace in traces(page, figure) if trace.get("hoverinfo") != "skip"]


def lines(page, figure: str) -> list[str]:
    return [trace["name"] for trace in means(page, figure)]


def test_every_plot_is_drawn(open_page):
    page = open_page()
    draw_all(page)
    plots = page.locator(".plot").all()
    assert len(plots) >= 12
    for plot in plots:
        assert plot.locator("path.js-line, path.point, .errorbar path").count() > 0


def test_what_is_drawn_are_the_numbers_of_the_curves(open_page):
    page = open_page()
    found = means(page, "learning-curves")
    assert found[1]["y"][-1] == pytest.approx(sum(ENDS["MVI(2)"]) / 3, rel=1e-5)
    thin = [t for t in traces(page, "learning-curves") if t not in found]
    assert [t["y"][11::13] for t in thin] == [
        [*own, *more] for own, more in zip(ENDS.values(), ([1], [], []), strict=True)
    ]
    assert "Thin lines: single runs" in page.locator("#curves").inner_text()


def test_labels_are_shown_as_they_are(open_page):
    page = open_page()
    chips = page.locator(".chip").all()
    assert [chip.get_attribute("title") for chip in chips] == list(ENDS)
    short = f"{EVIL[:18]}…{EVIL[-18:]}"
    assert [chip.inner_text() for chip in chips] == ["DQN", "MVI(2)", short]
    tick = page.locator('.plot[data-figure="aggregates"] .ytick text').nth(2)
    traces(page, "aggregates")
    assert tick.text_content().strip() == short
    assert page.locator("img").count() == 0


def test_a_label_is_switched_off_and_on_in_all_figures_and_tables(open_page):
    page = open_page()
    draw_all(page)
    figures = ("learning-curves", "sample-efficiency", "profiles", "diagnostics-CartPole-v1")
    before = {figure: lines(page, figure) for figure in figures}
    assert all(len(names) == 3 for names in before.values())
    chip = page.locator(".chip", has_text="MVI(2)")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    for figure in figures:
        assert lines(page, figure) == [name for name in before[figure] if name != "MVI(2)"]
    assert len(traces(page, "aggregates")) == 2
    assert len(traces(page, "improvement")) == 1
    assert page.locator("#summary tr.off").inner_text().startswith("MVI(2)")
    chip.click()
    assert {figure: lines(page, figure) for figure in figures} == before
    assert page.locator("tr.off").count() == 0


def test_the_table_is_sorted_by_a_click_on_a_column(open_page):
    page = open_page()
    rows = page.locator("#summary tbody th")

    def order() -> list[str]:
        return [text.split(" ")[0].strip() for text in rows.all_inner_texts()]

    assert order() == ["MVI(2)", "evil", "DQN"]  # by interquartile mean, highest first
    header = page.locator("#summary thead th").nth(1)
    for direction, expected in (("descending", order()), ("ascending", order()[::-1])):
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == direction
        assert order() == expected
    page.locator("#summary thead th").first.locator("button").click()
    assert order() == ["DQN", "evil", "MVI(2)"]
    page.locator("#summary thead th", has_text="P(better").locator("button").click()
    assert order()[-1] == "DQN"  # the baseline has none: unknown stays last
    assert page.locator("th[aria-sort]").count() == 1


def test_the_best_gap_is_the_least(open_page, atari):
    page = open_page(address=atari)
    page.locator("#summary thead th", has_text="gap").locator("button").click()
    assert page.locator("#summary tbody th").first.inner_text() == "MVI(2)"
    assert "0 is random play, 1 a human tester" in page.locator("#answer").inner_text()


def test_many_environments_are_drawn_without_a_complaint(open_page, atari):
    page = open_page(viewport=PHONE, address=atari)
    draw_all(page)
    found = traces(page, "improvement")
    assert [len(trace["y"]) for trace in found] == [20, 20]


def test_no_word_of_a_table_is_broken(open_page, atari):
    heads = open_page(viewport=PHONE, address=atari).locator("#summary thead button").all()
    assert [head.inner_text() for head in heads][-2:] == ["P(better than baseline)", "runs"]
    for head in heads:
        lines = head.evaluate("(h) => h.offsetHeight / parseFloat(getComputedStyle(h).lineHeight)")
        assert round(lines) <= len(head.inner_text().split())


def test_a_phone_shows_the_page_without_scrolling_sideways(open_page):
    page = open_page(viewport=PHONE)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    for plot in page.locator(".plot").all():
        box = plot.locator(".main-svg").first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


def test_the_answer_is_on_the_first_screen(open_page):
    for viewport in (DESKTOP, PHONE):
        page = open_page(viewport=viewport)
        box = page.locator("#summary tbody tr").first.bounding_box()
        assert box["y"] + box["height"] < viewport["height"]


def test_dark_mode_changes_the_page_and_the_plots(open_page):
    page = open_page(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    tick = "getComputedStyle(document.querySelector('.xtick text')).fill"
    line = "document.querySelector('path.js-line').style.stroke"
    first = '.plot[data-figure="learning-curves"][data-panel="0"]'
    page.locator(f"{first}[data-drawn=dark]").wait_for()
    dark = [page.evaluate(what) for what in (ground, tick, line)]
    page.emulate_media(color_scheme="light")
    page.locator(f"{first}[data-drawn=light]").wait_for()
    light = [page.evaluate(what) for what in (ground, tick, line)]
    assert all(one != other for one, other in zip(dark, light, strict=True))
    assert _brightness(dark[0]) < 60 < 200 < _brightness(light[0])
    assert _brightness(light[1]) < 130 < _brightness(dark[1])


def _brightness(colour: str) -> float:
    red, green, blue = (int(part) for part in colour.strip("rgb()").split(","))
    return (red + green + blue) / 3


def test_what_became_of_a_run_is_shown_with_its_reason(open_page):
    text = open_page().locator("#runs").inner_text()
    assert "1 of 19 runs are not finished" in text
    assert "diverged" in text
