"""The page as text: complete, self-contained, and nothing from a file is taken for HTML."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from mviq.reports.comparison import ReportChoices
from mviq.reports.page import embedded
from mviq.reports.report import make_report, report_files
from stored_runs import curve, write_run, write_study

ENV = "CartPole-v1"
EVIL = "</script><script>alert('label')</script><b onclick=x>&amp;"
SCORES = {("DQN", ENV): [curve(1), curve(2)], ("MVI(2)", ENV): [curve(3), curve(5)]}


class Elements(HTMLParser):
    """Collects what a browser would see as elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def page(path) -> str:
    return report_files(make_report(path, ReportChoices()), ["html"])["report.html"].decode()


def data_of(text: str) -> dict:
    return json.loads(re.search(r'id="report-data">(.*?)</script>', text)[1])


@pytest.fixture
def evil_study(tmp_path):
    """A study in which every text is an attack."""
    study = write_study(tmp_path, SCORES)
    plan = json.loads((study / "plan.json").read_text())
    plan |= {"name": EVIL, "description": EVIL}
    for run in plan["runs"]:
        run["label"] += EVIL
    names = [run["run"] for run in plan["runs"]]
    extra = {"label": EVIL, "env": f"Evil{EVIL}-v0", "seed": 0, "settings": {}}
    plan["runs"].append({"run": "diverged", **extra})
    plan["runs"].append({"run": "failed", **extra, "seed": 1})
    (study / "plan.json").write_text(json.dumps(plan))
    write_run(study / "runs" / "diverged", curve(1), status="diverged", message=EVIL, form=EVIL)
    write_run(study / "runs" / "failed", curve(1), status=None)
    failure = {"reason": EVIL, "attempts": 1, "when": None, "killed": False}
    (study / "runs" / "failed" / "failure.json").write_text(json.dumps(failure))
    system = {"versions": {EVIL: EVIL}, "python": EVIL}
    (study / "runs" / names[0] / "system.json").write_text(json.dumps(system))
    return study


def test_no_text_of_a_file_becomes_an_element(evil_study, tmp_path_factory):
    evil = Elements(page(evil_study))
    assert evil.tags.count("script") == 2
    assert not [value for name, value in evil.attributes if name == "onclick"]
    assert "b" in evil.tags  # the page's own, in its tables
    plain = Elements(page(write_study(tmp_path_factory.mktemp("plain"), SCORES)))
    assert set(evil.tags) <= set(plain.tags)


def test_evil_labels_arrive_as_they_are(evil_study):
    names = [look["name"] for look in data_of(page(evil_study))["looks"]]
    assert names == [f"DQN{EVIL}", f"MVI(2){EVIL}", EVIL]


def test_embedded_json_cannot_leave_its_element():
    text = embedded({"a": "</script><!-- <script> & \u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!-- <script> & \u2028"}


def test_the_page_needs_nothing_else(tmp_path):
    text = page(write_study(tmp_path, SCORES))
    found = Elements(text)
    assert not {"link", "img", "iframe"} & set(found.tags) - {"link"}
    links = [value for name, value in found.attributes if name in ("src", "href")]
    assert links[0] == "data:,"
    assert all(value.startswith("#") for value in links[1:])
    assert {value[1:] for value in links[1:]} <= {v for n, v in found.attributes if n == "id"}
    assert "default-src 'none'" in text
    assert len(text) < 1.5e6


def test_the_page_has_every_number_of_the_figures(tmp_path):
    report = make_report(write_study(tmp_path, SCORES), ReportChoices())
    figures = data_of(report_files(report, ["html"])["report.html"].decode())["figures"]
    for data in (*report.figures.values(), *report.diagnostics):
        for panel, shown in zip(data.panels, figures[data.name]["panels"], strict=True):
            for series, own in zip(panel.series, shown["series"], strict=True):
                assert own["y"] == [pytest.approx(y, rel=1e-5) for y in series.y]


def test_it_is_said_where_the_interquartile_mean_is_the_mean(tmp_path):
    said = "With fewer than 4 runs the interquartile mean is the mean."
    many = {key: [curve(x) for x in range(4)] for key in SCORES}
    assert said in page(write_study(tmp_path / "few", SCORES))
    assert said not in page(write_study(tmp_path / "many", many))


def test_no_empty_row_is_left_where_figures_are_missing(tmp_path):
    assert 'class="pair"' in page(write_study(tmp_path / "whole", SCORES))
    write_run(tmp_path / "begun" / "run", curve(1), status=None)
    assert 'class="pair"' not in page(tmp_path / "begun")


def test_settings_that_differ_are_shown_apart_from_the_common_ones(tmp_path):
    text = page(write_study(tmp_path, SCORES))
    differing, common = text.split("Settings that are the same for all labels")
    assert "<code>algorithm</code>" in differing
    assert "<code>temperature</code>" in common
    assert "<code>temperature</code>" not in differing


def test_run_times_and_hardware_are_shown(tmp_path):
    study = write_study(tmp_path, SCORES)
    assert "time of a finished run" not in page(study)
    system = {"cpu": "Fast 9000", "processor": "AVX2", "cores": 4, "gpus": []}
    for place in (study / "runs").iterdir():
        # Started twice: the clock begins again, and both parts count.
        (place / "timing.csv").write_text(
            "step,time/time_elapsed\n100,50\n200,70\n300,20\n400,50\n"
        )
        (place / "system.json").write_text(json.dumps(system))
    text = page(study)
    assert "DQN 2 min, MVI(2) 2 min." in text
    assert "Hardware: Fast 9000, AVX2, 4 cores." in text
    assert text.count('data-value="120.0">2 min</td>') == 4


def test_a_report_is_made_without_torch(tmp_path):
    write_study(tmp_path / "study", SCORES)
    code = """
import sys

class NoLearning:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "stable_baselines3", "sb3_contrib"):
            raise ImportError(f"a report imports {name}")

sys.meta_path.insert(0, NoLearning())
from mviq.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, "report", str(tmp_path / "study")]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert (tmp_path / "study" / "report" / "report.html").is_file()
