"""The page in a real Chromium: it draws, sorts, switches, fits a phone, and knows the dark."""

import pytest

from mviq.reports.comparison import ReportChoices
from mviq.reports.report import make_report, report_files
from mviq.reports.statistics import ATARI
from screens import DESKTOP, PHONE
from stored_runs import curve, name_of, write_plan, write_run, write_study

ENVS = ("CartPole-v1", "Acrobot-v1")
EVIL = "evil <img src=x onerror=\"console.error('run')\"></script> costs $1 or $2"
ENDS = {"DQN": (3, 5, 4), "MVI(2)": (9, 8, 11), EVIL: (6, 2, 7)}


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
def open_page(open_address, address):
    """Open the page of a study, in light and at a desk unless told otherwise."""

    def opened(viewport=DESKTOP, color_scheme="light", address=address):
        return open_address(address, viewport=viewport, color_scheme=color_scheme)

    return opened


def draw_all(page):
    """Open what is folded away, and wait until every plot is there; nobody scrolls."""
    page.evaluate("document.querySelectorAll('details').forEach((details) => details.open = true)")
    for one in page.locator(".plot").all():
        one.locator("svg").first.wait_for()


def plot(page, figure: str, panel: int = 0):
    place = page.locator(f'.plot[data-figure="{figure}"][data-panel="{panel}"]')
    place.locator("svg").first.wait_for()
    return place


def labels(page, figure: str) -> list[str]:
    """Return the labels that a figure shows, once for each curve, dot or bar."""
    numbers = (
        plot(page, figure)
        .locator(".series")
        .evaluate_all("(all) => all.map((series) => Number(series.dataset.label))")
    )
    return [list(ENDS)[number] for number in numbers]


def last_value(place, path) -> float:
    """Return where a line ends, read off the axis beside it."""
    ticks = place.locator(".tick.y").evaluate_all(
        "(all) => all.map((tick) => [Number(tick.getAttribute('y')), Number(tick.dataset.value)])"
    )
    (low, first), (high, last) = ticks[0], ticks[-1]
    end = float(path.get_attribute("d").rsplit(",", 1)[1])
    return first + (end + 4 - low) / (high - low) * (last - first)  # texts stand 4 pixels lower


def test_every_plot_is_drawn(open_page):
    page = open_page()
    draw_all(page)
    plots = page.locator(".plot").all()
    assert len(plots) >= 12
    for one in plots:
        assert one.locator("path.curve, circle.dot, rect.bar").count() > 0


def test_a_picture_of_the_whole_page_shows_the_figures(open_page):
    page = open_page()
    for one in page.locator(".plot:visible").all():
        assert one.get_attribute("data-drawn") is not None


def test_what_is_drawn_are_the_numbers_of_the_curves(open_page):
    page = open_page()
    place = plot(page, "learning-curves")
    ends = [last_value(place, path) for path in place.locator("path.curve").all()]
    assert ends[1:] == [pytest.approx(sum(own) / 3, abs=0.1) for own in list(ENDS.values())[1:]]
    thin = [last_value(place, path) for path in place.locator("path.run").all()]
    runs = [*ENDS["DQN"], 1, *ENDS["MVI(2)"], *ENDS[EVIL]]
    assert thin == [pytest.approx(end, abs=0.1) for end in runs]
    assert "Thin lines: single runs" in page.locator("#curves").inner_text()


def test_the_number_under_the_pointer_is_told_with_its_interval(open_page):
    page = open_page()
    place = plot(page, "learning-curves")
    place.scroll_into_view_if_needed()
    area = place.locator(".area").bounding_box()
    assert not place.locator(".tip").is_visible()
    page.mouse.move(area["x"] + area["width"] - 1, area["y"] + 20)
    told = place.locator(".tip").inner_text().splitlines()
    assert told[0] == "1,200"
    assert told[2].startswith("MVI(2): 9.33 [")
    page.mouse.move(5, 5)
    assert not place.locator(".tip").is_visible()
    dot = plot(page, "aggregates").locator(".series .area").nth(1)
    dot.hover()
    assert plot(page, "aggregates").locator(".tip").inner_text().startswith("MVI(2): ")


def test_labels_are_shown_as_they_are(open_page):
    page = open_page()
    chips = page.locator(".chip").all()
    assert [chip.get_attribute("title") for chip in chips] == list(ENDS)
    short = f"{EVIL[:18]}…{EVIL[-18:]}"
    assert [chip.inner_text() for chip in chips] == ["DQN", "MVI(2)", short]
    assert plot(page, "aggregates").locator("text.name").nth(2).text_content() == short
    assert page.locator("img").count() == 0


def test_a_label_is_switched_off_and_on_in_all_figures_and_tables(open_page):
    page = open_page()
    draw_all(page)
    figures = ("learning-curves", "sample-efficiency", "profiles", "diagnostics-CartPole-v1")
    before = {figure: labels(page, figure) for figure in figures}
    assert all(len(names) == 3 for names in before.values())
    chip = page.locator(".chip", has_text="MVI(2)")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    for figure in figures:
        assert labels(page, figure) == [name for name in before[figure] if name != "MVI(2)"]
    assert len(labels(page, "aggregates")) == 2
    assert set(labels(page, "improvement")) == {EVIL}
    assert page.locator("#summary tr.off").inner_text().startswith("MVI(2)")
    chip.click()
    assert {figure: labels(page, figure) for figure in figures} == before
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
    assert plot(page, "improvement").locator("text.name").count() == 20
    assert plot(page, "improvement").locator("rect.bar").count() == 40


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
    for one in page.locator(".plot").all():
        box = one.locator("svg").first.bounding_box()
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
    tick = "getComputedStyle(document.querySelector('.tick')).fill"
    line = "getComputedStyle(document.querySelector('path.curve')).stroke"
    plot(page, "learning-curves")
    dark = [page.evaluate(what) for what in (ground, tick, line)]
    page.emulate_media(color_scheme="light")
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


def test_a_label_leads_to_its_settings_and_back(open_page):
    page = open_page()
    page.locator("#summary tbody a", has_text="MVI(2)").click()
    head = page.locator("#configuration th:target")
    assert head.inner_text() == "MVI(2)"
    head.locator("a").click()
    assert page.locator("#summary th:target").inner_text() == "MVI(2)"
