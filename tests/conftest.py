"""Settings for all tests: property-based tests are reproducible unless asked to explore."""

import os

import torch
from hypothesis import settings

# `HYPOTHESIS_PROFILE=explore make unit` looks for new counterexamples, at random and longer.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))

torch.manual_seed(0)
torch.set_num_threads(1)  # two test processes share two cores
