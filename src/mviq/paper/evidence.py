"""From the stored runs of an experiment to its artefact: no more certain than its scale allows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mviq.paper.artefacts import Artefact
from mviq.paper.experiments import Experiment, StudyScale
from mviq.paper.reproduction import Reproduction
from mviq.reports.reading import load_study
from mviq.studies.running import Options, StudyOutcome, run_study
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import study_from


def gathered(
    experiment: Experiment,
    scale: StudyScale,
    parent: Path,
    options: Options,
    say: Callable[[str], None],
) -> tuple[Path, StudyOutcome]:
    """Run the study of an experiment, or what is left of it; return where it is and its end."""
    study = study_from(experiment.at(scale))
    directory = StudyDirectory(parent / study.name)
    return directory.path, run_study(study, directory, options, say)


def drawn(artefact: Artefact, scale: StudyScale, study: Path) -> Reproduction:
    """Return an artefact made of the runs of its study; at scale ``smoke`` nothing is decided."""
    experiment = artefact.experiment
    assert experiment is not None
    made = artefact.make(load_study(study))
    findings = made.findings
    if scale == "smoke":
        findings = [replace(finding, holds=None) for finding in findings]
    remark = f"scale {scale}: {experiment.cost(scale)}; {experiment.remarks[scale]}"
    return replace(
        made,
        settings=(remark, *made.settings),
        findings=findings,
        proviso=experiment.stand_in(scale),
    )
