"""Build a report: load a study, compare its runs, compute tables and figures, return the files."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from mviq.drawing.figures import draw
from mviq.drawing.panels import FigureData, csv_bytes, rows_of
from mviq.drawing.style import Look, looks, pictures
from mviq.reports import FORMATS, contrasts, curves
from mviq.reports.comparison import Comparison, ReportChoices, compare
from mviq.reports.conclusion import Conclusion, conclude
from mviq.reports.reading import load_study
from mviq.reports.stability import StabilityRow, stability, stability_csv
from mviq.reports.summary_tables import (
    EnvironmentScore,
    Summary,
    by_environment,
    scores_csv,
    summary,
    summary_csv,
)

FIGURES = (
    *("learning-curves", "aggregates", "improvement-probability", "sample-efficiency"),
    *("profiles", "improvement", "diagnostics-*"),
)
"""The names of the figures that a report can have."""


@dataclass(frozen=True)
class Report:
    """The content of a report, independent of its format."""

    comparison: Comparison
    summary: Summary
    conclusion: Conclusion
    cells: tuple[EnvironmentScore, ...]
    figures: dict[str, FigureData]
    """By name; figures without data are absent."""
    diagnostics: tuple[FigureData, ...]
    stability: tuple[StabilityRow, ...]
    """For environments with a reward threshold."""

    @property
    def looks(self) -> dict[str, Look]:
        """The style of every label of the study, including labels without a score."""
        return looks(self.comparison.study.labels)


def make_report(path: Path, choices: ReportChoices) -> Report:
    """Read a study and compute its report."""
    comparison = compare(load_study(path), choices)
    table = summary(comparison)
    figures = (
        curves.learning_curves(comparison),
        contrasts.aggregates(comparison, table.aggregates),
        contrasts.improvement_chances(comparison, table.chances),
        curves.sample_efficiency(comparison),
        contrasts.profiles(comparison),
        contrasts.improvements_in_percent(comparison),
    )
    return Report(
        comparison=comparison,
        summary=table,
        conclusion=conclude(comparison, table),
        cells=by_environment(comparison),
        figures={data.name: data for data in figures if data is not None},
        diagnostics=tuple(curves.diagnostics(comparison)),
        stability=stability(comparison) if choices.metric == "eval" else (),
    )


def remove_others(directory: Path, kept: Collection[Path]) -> None:
    """Remove the files of an earlier report from a directory, except those in ``kept``."""
    figures = [f"figures/{name}.{suffix}" for name in FIGURES for suffix in ("png", "svg", "csv")]
    for pattern in ("report.html", "summary.csv", "scores.csv", "stability.csv", *figures):
        for path in directory.glob(pattern):
            if path not in kept:
                path.unlink()


def report_files(report: Report, formats: Collection[str] = FORMATS) -> dict[str, bytes]:
    """Return the files of a report by name; the same report gives the same bytes."""
    from mviq.reports.page import render_page

    contents: dict[str, bytes] = {}
    if "html" in formats:
        contents["report.html"] = render_page(report)
    if "csv" in formats:
        contents["summary.csv"] = summary_csv(report.summary)
        contents["scores.csv"] = scores_csv(report.comparison)
        if report.stability:
            contents["stability.csv"] = stability_csv(report.stability)
    for data in (*report.figures.values(), *report.diagnostics):
        if "csv" in formats:
            columns = ("panel", "label", "x", "y", "low", "high")
            contents[f"figures/{data.name}.csv"] = csv_bytes(columns, rows_of(data))
        if wanted := [suffix for suffix in ("png", "svg") if suffix in formats]:
            contents |= pictures(f"figures/{data.name}", draw(data, report.looks), wanted)
    return contents
