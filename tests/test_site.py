"""The documentation site: it builds without a warning, and the explorer computes what mviq does."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mviq.tsallis import entropy, policy, soft_maximum, soft_value
from screens import DESKTOP, PHONE

ROOT = Path(__file__).parent.parent
CASES = [
    (1.0, 0.5, (1.0, 0.5, -0.2)),
    (1.001, 0.01, (1.0, 0.8, 0.3, -0.5)),
    (1.01, 0.02, (1.0, 0.8, 0.3, -0.5)),
    (1.5, 1.0, (1.0, 0.5, -0.2)),
    (2.0, 0.03, (1.0, 0.99, 0.98, -2.0)),
    (3.0, 1.0, (2.0, 1.9, 0.0, -1.0)),
    (0.5, 2.0, (1.0, 0.0)),
    (10.0, 5.0, (1.5, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -2.0)),
    (50.0, 0.7, (0.3, 0.29, 0.2)),
    (math.inf, 1.0, (1.0, 1.0, 0.5)),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning is an error, as in ``make docs``."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", ROOT / "docs", out]
    built = subprocess.run(command, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    return out


@pytest.fixture
def explorer(open_address, site):
    """Open the explorer with such numbers in its address."""

    def opened(q, temperature, values, **options):
        numbers = ",".join(map(str, values))
        there = f"{(site / 'explorer.html').as_uri()}#q={q}&tau={temperature}&values={numbers}"
        return open_address(there, **{"viewport": DESKTOP, **options})

    return opened


def exact(page, place):
    found = page.locator(place).evaluate_all("(all) => all.map((x) => Number(x.dataset.exact))")
    return torch.tensor(found, dtype=torch.float64)


def close(found, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64).reshape(found.shape)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("q", "temperature", "numbers"), CASES)
def test_the_explorer_shows_the_numbers_of_the_library(explorer, q, temperature, numbers):
    page = explorer(q, temperature, numbers)
    values = torch.tensor(numbers, dtype=torch.float64)
    for kind, index in (("own", q), ("softmax", 1.0), ("sparsemax", 2.0)):
        pi = policy(values, index, temperature)
        close(exact(page, f'[data-policy="{kind}"]'), pi)
        expected = {
            "support": (pi > 0).sum(),
            "entropy": entropy(pi, index) if index < math.inf else 0.0,
            "softMaximum": soft_maximum(values, index, temperature),
            "softValue": soft_value(values, index, temperature),
        }
        for what, number in expected.items():
            close(exact(page, f'tr[data-row="{kind}"] [data-what="{what}"]'), number)
    close(exact(page, "[data-gap]"), values - soft_maximum(values, q, temperature))
    assert page.locator(".action.out").count() == (policy(values, q, temperature) == 0).sum()


def test_sliders_and_buttons_change_what_is_shown(explorer):
    page = explorer(2, 0.5, (1.0, 0.8))
    best, soft = (f'[data-policy="{kind}"][data-action="0"]' for kind in ("own", "softmax"))
    close(exact(page, best), 0.7)
    page.locator("[data-value-of='1']").fill("-2")
    close(exact(page, best), 1.0)
    page.get_by_role("button", name="1 softmax").click()
    close(exact(page, best), exact(page, soft))
    page.get_by_role("button", name="+ action").click()
    assert page.locator(".action").count() == 3
    assert "q=1&tau=0.5&values=1,-2,0" in page.url


PAGES = ("explorer.html", "presets.html", "api/tsallis.html", "index.html")


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_a_page_without_scrolling_sideways(open_address, site, name):
    page = open_address((site / name).as_uri(), viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_the_reference_has_what_the_packages_export(site):
    text = (site / "api" / "tsallis.html").read_text(encoding="utf-8")
    assert all(f'id="mviq.tsallis.{name}"' in text for name in ("policy", "Family", "soft_value"))
