"""From stored runs to numbers, figures and one page. Nothing here imports the learning library."""

FORMATS = ("html", "png", "svg", "csv")
"""What a report can be written as: the page, pictures, tables."""
