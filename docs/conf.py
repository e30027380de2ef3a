"""How Sphinx builds the site: ``make docs``."""

from importlib.metadata import version as installed_version

project = "mviq"
author = "The mviq developers"
copyright = f"2026, {author}"
version = release = installed_version("mviq")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_build"]
nitpicky = False  # types of PyTorch and NumPy lead out of the site, and no build needs a network

myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures of one line; the docstrings say what arguments mean
python_maximum_signature_line_length = 88
add_module_names = False

copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "mviq"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f9f", "color-brand-content": "#1f6f9f"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ec", "color-brand-content": "#7cc4ec"},
}


def _formulas(app, what, name, obj, options, lines):
    """Show indented lines of a docstring as they stand: they are formulas, not quotations."""
    for place in range(len(lines) - 1, 0, -1):
        begins = lines[place].startswith("    ") and not lines[place - 1].strip()
        above = next((line for line in reversed(lines[:place]) if line.strip()), "")
        goes_on = above.lstrip().startswith((":", "-", ">>>")) or above.startswith("    ")
        if begins and not goes_on and not above.endswith("::"):
            lines[place:place] = ["::", ""]


def _skip(app, what, name, obj, skip, options):
    """Leave out fields of named tuples that say nothing but their number, and the class below."""
    return skip or name == "base" or (obj.__doc__ or "").startswith("Alias for field number")


def setup(app):
    """Connect what this file adds to Sphinx."""
    app.connect("autodoc-process-docstring", _formulas)
    app.connect("autodoc-skip-member", _skip)
