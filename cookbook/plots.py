"""Records or numbers -> matplotlib Axes; the caller shows them.

This file draws a corpus and a document. ``strategy_plots`` compares strategies, and is offered here as well,
so that a notebook imports one name; what a figure looks like is in ``styles``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .strategy_plots import cost, forest, prompt_sizes, quality_grid, quality_tokens, sweep
from .styles import COLORS, DPI, SIZE_INCHES, color, legend_above, new_axes, panels, refuse_empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .types import Span

__all__ = [
    "COLORS",
    "DPI",
    "SIZE_INCHES",
    "cost",
    "fan_in",
    "forest",
    "hit_map",
    "length_grid",
    "length_histogram",
    "prompt_sizes",
    "quality_grid",
    "quality_tokens",
    "sweep",
]


def length_histogram(
    lengths: Sequence[int],
    *,
    role: str = "hit",
    label: str = "chunks",
    limit: int | None = None,
    bins: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of lengths in tokens, with the median, the 95th percentile and an optional limit.

    Raises:
        ValueError: ``lengths`` is empty.
    """
    if not len(lengths):
        raise ValueError("lengths is empty: there is nothing to draw")
    import numpy as np

    axes = new_axes(ax)
    axes.hist(lengths, bins=bins, color=color(role), label=f"{label} (n = {len(lengths):,})")
    for share, style in ((50, "-"), (95, "--")):
        place = float(np.percentile(lengths, share))
        axes.axvline(place, color="black", linestyle=style, linewidth=1, label=f"p{share} = {place:,.0f}")
    if limit is not None:
        axes.axvline(limit, color=COLORS["gold"], linestyle=":", linewidth=2, label=f"limit = {limit:,}")
    axes.set_xlabel("length (tokens)")
    axes.set_ylabel(f"number of {label}")
    legend_above(axes)
    return axes


def length_grid(
    lengths: Mapping[str, Sequence[int]],
    *,
    role: str = "hit",
    label: str = "sentence",
    columns: int = 4,
    bins: int = 30,
) -> list[Axes]:
    """One small histogram a corpus over one logarithmic axis of tokens, with its median and 95th percentile.

    The axis is logarithmic, since lengths differ by factors; the longest of all ends it.

    Args:
        lengths: name of a corpus to its lengths in tokens, drawn row by row.
        label: what is measured, in the singular.

    Raises:
        ValueError: there is no corpus, or one without lengths.
    """
    refuse_empty("lengths", lengths)
    import numpy as np

    figure, drawn = panels(lengths, columns=columns)
    longest = max(max(values) for values in lengths.values())
    edges = np.geomspace(1, longest + 1, bins + 1).tolist()
    for axes, values in zip(drawn, lengths.values(), strict=True):
        weights = np.full(len(values), 100 / len(values))
        axes.hist(values, bins=edges, weights=weights, color=color(role))
        for share, style in ((50, "-"), (95, "--")):
            axes.axvline(float(np.percentile(values, share)), color="black", linestyle=style, linewidth=1)
        axes.set_xscale("log")
    figure.supxlabel(
        f"length of a {label} (tokens, logarithmic); solid line: p50, dashed: p95", fontsize="small"
    )
    figure.supylabel(f"{label}s (%)", fontsize="small")
    return drawn


def fan_in(parent_ids: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Bars: how many parents hold 1, 2, 3 ... of the given children.

    Args:
        parent_ids: one parent id for each child.

    Raises:
        ValueError: ``parent_ids`` is empty.
    """
    if not parent_ids:
        raise ValueError("parent_ids is empty: there is nothing to draw")
    axes = new_axes(ax)
    sizes = Counter(Counter(parent_ids).values())
    axes.bar(list(sizes), list(sizes.values()), color=COLORS["parent"])
    # From about 30 labels on, they would run into each other.
    axes.set_xticks(range(1, max(sizes) + 1, 1 + max(sizes) // 30))
    axes.set_xlabel("children of one parent (fan-in)")
    axes.set_ylabel("number of parents")
    return axes


def hit_map(
    spans: Mapping[str, Sequence[Span]],
    *,
    length: int,
    roles: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One document as a line of characters, one row a role: where hits, windows, parents and gold lie.

    Args:
        spans: name of a row to the spans of one document, drawn from top to bottom.
        length: the document's length in characters.
        roles: name to a key of ``COLORS``; where absent, the name itself must be one.

    Raises:
        ValueError: spans of more than one document, or an unknown role.
    """
    doc_ids = {span.doc_id for known in spans.values() for span in known}
    if len(doc_ids) > 1:
        raise ValueError(
            f"spans lie in {len(doc_ids)} documents ({', '.join(sorted(doc_ids))}): draw one at a time"
        )
    fills = [color((roles or {}).get(name, name)) for name in spans]
    axes = new_axes(ax, height=0.8 + 0.45 * len(spans))
    for row, (fill, known) in enumerate(zip(fills, spans.values(), strict=True)):
        bars = [(span.start, len(span)) for span in known]
        # A white edge parts neighbours; on a bar of a few pixels it would hide the bar.
        edges = ["white" if len(span) * 100 > length else fill for span in known]
        axes.broken_barh(bars, (row - 0.35, 0.7), facecolors=fill, edgecolors=edges, linewidth=0.5)
    axes.set_yticks(range(len(spans)), list(spans))
    axes.invert_yaxis()
    axes.set_xlim(0, length)
    axes.set_xlabel("place in the document (characters)")
    return axes
