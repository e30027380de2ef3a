"""Every study of the paper runs, at the scale of a minute, from one command to its verdict."""

import pytest

from mviq.cli.main import main
from mviq.paper.artefacts import ARTEFACTS

STUDIES = [name for name, one in ARTEFACTS.items() if one.experiment is not None]


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_smoke(name, studies, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["paper", name, "--scale", "smoke", "--studies", str(studies), "--out", str(out)]
    assert main([*command, "--quiet"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("decides nothing") == 1
    assert "verdict: not enough evidence" in text
    assert "not decided" not in text
    assert "nothing is learnt" in text
    assert {p.name for p in out.iterdir()} == {f"{name}.{x}" for x in ("csv", "md", "png", "svg")}


def test_figures_of_one_experiment_share_its_runs(studies):
    assert (studies / "atari-smoke").is_dir()
    experiments = {ARTEFACTS[name].experiment.name for name in STUDIES}
    assert {path.name for path in studies.iterdir()} == {f"{one}-smoke" for one in experiments}
