"""Line styles of the paper's figures: an index q has the same style in all of them."""

from collections.abc import Sequence

from mviq.drawing.style import BLACK, BLUE, GREEN, ORANGE, PINK, Look, looks

LOOK_OF_Q = {
    1: Look("q=1", BLACK, (), 2.2),
    2: Look("q=2", BLUE, (6, 1.2), 2.0),
    3: Look("q=3", GREEN, (4, 1.2, 1, 1.2), 1.8),
    4: Look("q=4", ORANGE, (2.2, 1.2), 1.6),
    5: Look("q=5", PINK, (1, 1), 1.4),
}


def looks_of(labels: Sequence[str]) -> dict[str, Look]:
    """Return the line style of each label."""
    by_q = {look.name: look for look in LOOK_OF_Q.values()}
    return {label: by_q.get(label, look) for label, look in looks(labels).items()}
