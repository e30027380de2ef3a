"""From the stored runs of an experiment to its artefact: no more certain than its scale allows."""

from dataclasses import replace
from pathlib import Path

from mviq.paper.artefacts import Artefact
from mviq.paper.drawing import Drawing
from mviq.paper.experiments import Scale
from mviq.reports.reading import read_study


def drawn(artefact: Artefact, scale: Scale, study: Path) -> Drawing:
    """Return an artefact made of the runs of its study; at scale ``smoke`` nothing is decided."""
    assert artefact.experiment is not None
    drawing = artefact.make(read_study(study))
    findings = drawing.findings
    if scale == "smoke":
        findings = [replace(finding, holds=None) for finding in findings]
    remark = (
        f"scale {scale}: {artefact.experiment.cost(scale)}; {artefact.experiment.remarks[scale]}"
    )
    return replace(drawing, settings=(remark, *drawing.settings), findings=findings)
