"""Formatting of numbers."""

import math
from collections.abc import Callable

from mviq.reports.statistics import Interval

UNKNOWN = Interval(math.nan, math.nan, math.nan)


def shown(value: float) -> str:
    """Format a number with about three digits; NaN becomes a dash.

    >>> [shown(x) for x in (0.12345, -1.5, 23.456, 295.93, 12345.6, float("nan"))]
    ['0.123', '−1.50', '23.5', '296', '12\u202f346', '–']
    """
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    digits = 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:,.{digits}f}".replace(",", "\u202f").replace("-", "−")


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.52)
    '52 %'
    """
    return f"{100 * share:.0f} %"


def signed(value: float) -> str:
    """Format a difference with its sign.

    >>> signed(12.0), signed(-3.0)
    ('+12.0', '−3.00')
    """
    return f"+{shown(value)}" if value > 0 else shown(value)


def brackets(number: Interval, show: Callable[[float], str] = shown) -> str:
    """Format the ends of an interval; empty if they are unknown."""
    return "" if math.isnan(number.low) else f"[{show(number.low)}, {show(number.high)}]"


def with_interval(number: Interval, show: Callable[[float], str] = shown) -> str:
    """Format an estimate with its interval."""
    return f"{show(number.estimate)} {brackets(number, show)}".strip()
