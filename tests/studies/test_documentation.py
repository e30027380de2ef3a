"""The documents show study files and searches that work."""

import re
from pathlib import Path

import pytest
import yaml

from mviq.reports.tuning_scores import judge_of
from mviq.studies.plan import expand
from mviq.studies.study_file import KEYS, study_from
from mviq.studies.tuning.search_file import search_from

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["README.md", "docs/studies.md"])
def test_the_study_files_in_the_documents(document):
    files = re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert files
    for text in files:
        study = yaml.safe_load(text)
        seeds = study["seeds"]
        own = set(range(seeds)) if isinstance(seeds, int) else set(seeds)
        assert {run.seed for run in expand(study_from(study)).runs} == own


def test_the_searches_in_the_document():
    files = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/tuning.md").read_text(), flags=re.DOTALL)
    searches = [search_from(yaml.safe_load(text)) for text in files]
    assert [search.trials for search in searches] == [40, 25]
    assert all(judge_of(search) for search in searches)


def test_every_key_is_explained():
    text = (ROOT / "docs" / "studies.md").read_text()
    assert all(f"{key}:" in text for key in KEYS)
