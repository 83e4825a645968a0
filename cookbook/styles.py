"""A role or a row of names -> colour, marker and line, and Axes of the one size that all figures have.

One colour a role in every figure. The colours are those of Okabe and Ito, which colour-blind readers can
tell apart. Several of them print in like greys, so that what shares an Axes differs in marker and line
too. Source: Okabe, Ito (2008), "Color Universal Design".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "hit": "#0072B2",
    "window": "#56B4E9",
    "parent": "#D55E00",
    "page": "#009E73",
    "dropped": "#999999",
    "gold": "#CC79A7",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Line styles; the dashes of the last two are lengths in points, on and off by turns.
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (7, 1.5)), (0, (4, 1, 1, 1, 1, 1)))
SIZE_INCHES = (7.0, 3.0)
DPI = 80


class Look(NamedTuple):
    """How one line or point is drawn."""

    color: str
    marker: str
    line: Any


def color(role: str) -> str:
    """The colour of a role.

    >>> color("gold")
    '#CC79A7'
    """
    if role not in COLORS:
        raise ValueError(f"role {role!r} is unknown: use one of {', '.join(COLORS)}")
    return COLORS[role]


def darker(shade: str, share: float) -> str:
    """A colour mixed with a share of black.

    >>> darker("#80FF00", 0.5)
    '#408000'
    """
    return "#" + "".join(f"{round(int(shade[i : i + 2], 16) * (1 - share)):02X}" for i in (1, 3, 5))


def looks(names: Collection[str], *, roles: Mapping[str, str] | None = None, first: int = 0) -> list[Look]:
    """One look a name: the colour of its role, darker for each further name of it, and a marker and a line.

    Args:
        roles: name to a key of ``COLORS``; a name that is absent and no key itself is a ``hit``.
        first: how many looks are in use on the Axes.

    >>> [look[:2] for look in looks(["flat", "r1", "r2"], roles={"r1": "window", "r2": "window"})]
    [('#0072B2', 'o'), ('#56B4E9', 's'), ('#367092', '^')]
    """
    known = [(roles or {}).get(name, name if name in COLORS else "hit") for name in names]
    return [
        Look(
            darker(color(role), 0.75 * known[:i].count(role) / known.count(role)),
            MARKERS[(first + i) % len(MARKERS)],
            LINES[(first + i) % len(LINES)],
        )
        for i, role in enumerate(known)
    ]


def refuse_empty(name: str, values: Mapping[str, Collection[Any]]) -> None:
    """Raise ValueError when there are no values, or none under one of their keys."""
    empty = [key for key, inner in values.items() if not len(inner)]
    if not values or empty:
        raise ValueError(f"{name} is empty{f' for {empty[0]!r}' if empty else ''}: there is nothing to draw")


def new_axes(ax: Axes | None, *, height: float = SIZE_INCHES[1]) -> Axes:
    """The given Axes, or new ones: as wide as all, and ``height`` inches high, at most as high as all."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    size = (SIZE_INCHES[0], min(height, SIZE_INCHES[1]))
    return plt.subplots(figsize=size, dpi=DPI, layout="constrained")[1]


def panels(names: Collection[str], *, columns: int, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of small Axes over one x axis, titled with the names, row by row."""
    import matplotlib.pyplot as plt

    n_columns = min(columns, len(names))
    n_rows = -(-len(names) // n_columns)
    figure, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=SIZE_INCHES,
        dpi=DPI,
        layout="constrained",
        sharex=True,
        sharey=sharey,
        squeeze=False,
    )
    drawn = list(grid.flat)
    for axes, name in zip(drawn, names, strict=False):
        axes.set_title(name, fontsize="small")
        axes.tick_params(labelsize="small")
    for place in range(len(names), len(drawn)):
        drawn[place].remove()
        drawn[place - n_columns].tick_params(labelbottom=True)
    return figure, drawn[: len(names)]


def legend_above(axes: Axes) -> None:
    """The legend over the Axes in two columns, where it hides no data and takes no width."""
    # From the right end on: over the labels of the y axis there is room, which narrow Axes need.
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    axes.legend(frameon=False, fontsize="small", ncols=2, columnspacing=1, handlelength=1.5, **place)


def legend_beside(axes: Axes) -> None:
    """The legend to the right of the Axes, where it hides no data."""
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
