"""The report as a self-contained HTML page, which needs no network and no other file."""

import json
import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mviq.drawing.panels import Panel, value_range
from mviq.drawing.style import Look, short_names
from mviq.messages import counted
from mviq.progress import duration
from mviq.reports.method import method
from mviq.reports.numbers import UNKNOWN, brackets, shown
from mviq.reports.provenance import NOT_BEGUN, hardware, run_times, settings_by_label, systems
from mviq.reports.report import Report
from mviq.reports.stability import StabilityRow
from mviq.reports.statistics import Interval
from mviq.reports.summary_tables import AREA, GAP, IQM, SummaryRow

_HERE = Path(__file__).parent
_EXPLAINED = {
    IQM: "Mean of the middle half of all runs in all environments",
    "mean": "Mean over environments of the mean over runs",
    "median": "Median over environments of the mean over runs",
    GAP: "How far scores fall short of 1 on average; less is better",
    AREA: "Time average of the learning curve: higher is faster",
}
_CHANCE = (
    "P(better than baseline)",
    "How likely a run is better than one of the baseline; 0.5 is no difference",
)
_PIXELS = 1.4  # per point of line width


def render_page(report: Report) -> bytes:
    """Return the HTML page; all text from files is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    text = template.render(
        **_context(report),
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        script=(_HERE / "report.js").read_text(encoding="utf-8"),
        data=embedded(_data(report)),
        version=version("mviq"),
    )
    return text.encode()


def embedded(content: Any) -> str:
    """Return JSON that is safe inside a script element.

    >>> embedded({"label": "</script><!--"})
    '{"label":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _context(report: Report) -> dict[str, Any]:
    comparison, study = report.comparison, report.comparison.study
    names, settings = report.summary.columns, settings_by_label(study)
    known = {name: set(own) - {NOT_BEGUN} for name, own in settings.items()}
    return {
        "study": study,
        "facts": _facts(report),
        "conclusion": report.conclusion,
        "looks": report.looks,
        "places": {label: place for place, label in enumerate(report.looks)},
        "dashes": {label: _dashes(look) for label, look in report.looks.items()},
        "caption": _caption(report),
        "columns": [(name, _EXPLAINED[name]) if name in _EXPLAINED else _CHANCE for name in names],
        "less_is_better": GAP,
        "rows": [_row(report, row, names) for row in report.summary.rows],
        "labels": comparison.labels,
        "environments": _environments(report),
        "stability": [_stability(row) for row in report.stability],
        "figures": report.figures,
        "diagnostics": report.diagnostics,
        "problems": [run for run in study.runs if run.status != "finished"],
        "notes": comparison.notes,
        "common": {name: next(iter(own)) for name, own in known.items() if len(own) == 1},
        "differing": {name: own for name, own in settings.items() if len(known[name]) > 1},
        "system": systems(study),
        "hardware": hardware(study),
        "times": run_times(study),
        "run_times": [duration(run.seconds) if run.seconds else "" for run in study.runs],
        "method": method(comparison),
    }


def _caption(report: Report) -> str:
    scale, baseline = report.comparison.scale, report.comparison.baseline
    against = f" The baseline is {baseline}." if report.summary.chances else ""
    title = (
        f"Final scores: {scale.unit}. In brackets: 95 % intervals over seeds by the bootstrap, "
        "widened for few runs and never beyond the returns that are possible."
    )
    few = len(report.comparison.shared) == 1 and max(row.runs for row in report.summary.rows) < 4
    same = " With fewer than 4 runs the interquartile mean is the mean." if few else ""
    return f"{title} {scale.explanation}{same}{against}"


def _facts(report: Report) -> list[str]:
    comparison, study = report.comparison, report.comparison.study
    finished = sum(run.status == "finished" for run in study.runs)
    return [
        _part(len(comparison.ranked), len(study.labels), "algorithm"),
        _part(len(comparison.shared), len(study.envs), "environment"),
        counted(len(study.seeds), "seed"),
        f"{finished} of {counted(len(study.runs), 'run')} finished",
    ]


def _part(averaged: int, planned: int, word: str) -> str:
    """Return the planned number, and how many of them are averaged if not all are."""
    few = f"{averaged} averaged of " if averaged != planned else ""
    return f"{few}{counted(planned, word)}"


def _row(report: Report, row: SummaryRow, names: Sequence[str]) -> dict[str, Any]:
    numbers = [row.numbers.get(name, UNKNOWN) for name in names]
    return {
        "label": row.label,
        "cells": [_cell(number) for number in numbers],
        "strip": _strip(report, row.numbers.get(IQM, UNKNOWN)),
        "runs": row.runs,
        "planned": row.planned,
        "diverged": row.diverged,
    }


def _cell(number: Interval) -> dict[str, str]:
    if math.isnan(number.estimate):
        return {"value": "", "estimate": "", "interval": ""}
    return {
        "value": f"{number.estimate:.12g}",
        "estimate": shown(number.estimate),
        "interval": brackets(number),
    }


def _strip(report: Report, number: Interval) -> dict[str, str] | None:
    """Return the position of an interval in percent of the range of the intervals of all rows."""
    if math.isnan(number.estimate):
        return None
    numbers = [row.numbers.get(IQM, UNKNOWN) for row in report.summary.rows]
    every: list[float] = [x for n in numbers for x in (n.estimate, n.low, n.high)]
    ends = [x for x in every if not math.isnan(x)]
    low, width = min(ends), (max(ends) - min(ends)) or 1.0

    def percent(value: float) -> float:
        return 3 + 94 * (value - low) / width

    known = not math.isnan(number.low)
    left, right = map(percent, (number.low, number.high) if known else (number.estimate,) * 2)
    places = {"left": left, "width": right - left, "middle": percent(number.estimate)}
    return {name: f"{value:.2f}" for name, value in places.items()}


def _environments(report: Report) -> dict[str, list[dict[str, str]]]:
    scores = {(cell.env, cell.label): cell.number for cell in report.cells}
    comparison = report.comparison
    return {
        e.env: [_cell(scores.get((e.env, label), UNKNOWN)) for label in comparison.labels]
        for e in comparison.environments
    }


def _stability(row: StabilityRow) -> dict[str, Any]:
    worst, diverged = (Interval(x, math.nan, math.nan) for x in (row.worst, row.diverged))
    cells = [_cell(number) for number in (row.late, row.share, worst, diverged)]
    return {"env": row.env, "label": row.label, "solved": f"{row.solved:g}", "cells": cells}


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the figures for the page's script."""
    places = {label: place for place, label in enumerate(report.looks)}
    figures = (*report.figures.values(), *report.diagnostics)
    return {
        "looks": [_look(name, look) for name, look in report.looks.items()],
        "figures": {
            figure.name: {
                "kind": figure.kind,
                "panels": [_panel(panel, places) for panel in figure.panels],
            }
            for figure in figures
        },
    }


def _look(name: str, look: Look) -> dict[str, Any]:
    line = {"dash": _dashes(look), "width": round(_PIXELS * look.width, 2)}
    return {"name": name, "short": look.name, **line}


def _dashes(look: Look) -> str:
    return " ".join(f"{_PIXELS * look.width * part:.4g}" for part in look.dashes)


def _panel(panel: Panel, places: dict[str, int]) -> dict[str, Any]:
    groups = panel.places if panel.kind == "bars" else []
    names = dict(zip(groups, short_names(groups), strict=True))
    return {
        "xTitle": panel.x_title,
        "yTitle": panel.y_title,
        "range": list(map(_number, value_range(panel))),
        "limited": panel.limits is not None,
        "reference": panel.reference,
        "series": [
            {
                "label": places[series.label],
                "x": [names.get(x, x) if isinstance(x, str) else _number(x) for x in series.x],
                **{end: list(map(_number, getattr(series, end))) for end in ("y", "low", "high")},
                "runs": None
                if series.runs is None
                else [list(map(_number, r)) for r in series.runs],
            }
            for series in panel.series
        ],
    }


def _number(value: float) -> float | None:
    """Round to six digits, enough for any screen; None for NaN."""
    return None if math.isnan(value) else float(f"{value:.6g}")
