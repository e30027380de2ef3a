"""Reports on stored runs: statistics, figures and an HTML page, without PyTorch or SB3."""

FORMATS = ("html", "png", "svg", "csv")
"""The output formats of a report: HTML page, figures, tables."""
