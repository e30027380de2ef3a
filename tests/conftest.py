"""Settings for all tests: reproducible unless asked to explore; a browser for those of pages."""

import os
import signal

import pytest
import torch
from hypothesis import settings

from chromium import launch_options

# `HYPOTHESIS_PROFILE=explore make unit` looks for new counterexamples, at random and longer.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background, by nohup say:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests are interrupted

torch.manual_seed(0)
torch.set_num_threads(1)  # two test processes share two cores


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


@pytest.fixture
def open_address(browser):
    """Open a page without a network, and complain at the end if the browser did."""
    complaints, contexts = [], []

    def opened(address, **options):
        context = browser.new_context(offline=True, **options)
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
