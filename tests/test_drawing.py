"""Drawing: what lies on top of each other stays visible, and text is taken for what it is."""

import io

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from mviq.drawing.figures import draw, panel_grid
from mviq.drawing.panels import FigureData, Maths, Panel, Series, csv_bytes
from mviq.drawing.style import looks, render


def figure_data(labels, y, **options) -> FigureData:
    x, unknown = np.arange(len(y), dtype=float), np.full(len(y), np.nan)
    series = tuple(Series(label, x, y, unknown, unknown) for label in labels)
    return FigureData("test", "", "", (Panel("$5 a day", "x", "y", series, **options),))


@pytest.mark.parametrize("count", [2, 3, 6, 8])
def test_curves_that_coincide_do_not_hide_each_other(count):
    labels = [f"label {i}" for i in range(count)]
    figure = draw(figure_data(labels, np.sin(np.linspace(0, 6, 100))), looks(labels))
    figure.legends[0].remove()
    picture = matplotlib.image.imread(io.BytesIO(render(figure, "png")))[..., :3]
    for label, look in looks(labels).items():
        distance = np.abs(picture - to_rgb(look.colour)).max(axis=-1)
        assert (distance < 0.15).sum() > 20, label


def test_text_is_shown_as_it_is_unless_it_is_mathematics():
    y = np.ones(3)
    plain = draw(figure_data(["_a"], y), looks(["_a"]))
    assert plain.axes[0].get_title() == r"\$5 a day"
    (panel,) = figure_data(["a"], y).panels
    typeset = FigureData("test", "", "", (Panel(Maths("$R_q$"), "x", "y", panel.series),))
    assert draw(typeset, looks(["a"])).axes[0].get_title() == "$R_q$"


@pytest.mark.parametrize(
    ("linear_below", "scale"), [(None, "linear"), (0.0, "log"), (1e-3, "symlog")]
)
def test_axes_are_linear_logarithmic_or_both(linear_below, scale):
    data = figure_data(["a"], np.array([1.0, 10.0, 1000.0]), linear_below=linear_below)
    assert draw(data, looks(["a"])).axes[0].get_yscale() == scale


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 1), (4, 2), (5, 2), (7, 3)])
def test_panels_are_in_even_rows(count, rows):
    figure, axes = panel_grid(count, 3, 2)
    assert len(axes) == len(figure.axes) == count
    assert figure.get_figheight() == 2 * rows


def test_a_table_keeps_twelve_digits():
    rows = [("a,b", 1, 1 / 3, None), ("c", 2, np.float64("nan"), 1e30)]
    assert csv_bytes(("w", "x", "y", "z"), rows) == (
        b'w,x,y,z\n"a,b",1,0.333333333333,\nc,2,,1e+30\n'
    )
