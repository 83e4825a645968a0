"""Records or numbers -> matplotlib Axes; the caller shows them.

One colour a role in every figure. The colours are those of Okabe and Ito, which colour-blind readers can
tell apart, and differ in lightness, so that they survive a print in grey. Source: Okabe, Ito (2008),
"Color Universal Design".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .eval import Interval
    from .types import Span

COLORS = {
    "hit": "#0072B2",
    "window": "#56B4E9",
    "parent": "#D55E00",
    "page": "#009E73",
    "dropped": "#999999",
    "gold": "#CC79A7",
}
SIZE_INCHES = (7.0, 3.0)
DPI = 80


def _axes(ax: Axes | None, *, height: float = SIZE_INCHES[1]) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(SIZE_INCHES[0], height), dpi=DPI, layout="constrained")[1]


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

    axes = _axes(ax)
    axes.hist(lengths, bins=bins, color=COLORS[role], label=f"{label} (n = {len(lengths):,})")
    for share, style in ((50, "-"), (95, "--")):
        place = float(np.percentile(lengths, share))
        axes.axvline(place, color="black", linestyle=style, linewidth=1, label=f"p{share} = {place:,.0f}")
    if limit is not None:
        axes.axvline(limit, color=COLORS["gold"], linestyle=":", linewidth=2, label=f"limit = {limit:,}")
    axes.set_xlabel("length (tokens)")
    axes.set_ylabel(f"number of {label}")
    axes.legend(frameon=False)
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
    empty = [name for name, values in lengths.items() if not len(values)]
    if not lengths or empty:
        raise ValueError(f"lengths is empty{f' for {empty[0]!r}' if empty else ''}: there is nothing to draw")
    import matplotlib.pyplot as plt
    import numpy as np

    n_columns = min(columns, len(lengths))
    n_rows = -(-len(lengths) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=SIZE_INCHES, dpi=DPI, layout="constrained", sharex=True, squeeze=False
    )
    longest = max(max(values) for values in lengths.values())
    edges = np.geomspace(1, longest + 1, bins + 1)
    drawn = list(grid.flat)
    for axes, (name, values) in zip(drawn, lengths.items(), strict=False):
        weights = np.full(len(values), 100 / len(values))
        axes.hist(values, bins=edges, weights=weights, color=COLORS[role])
        for share, style in ((50, "-"), (95, "--")):
            axes.axvline(float(np.percentile(values, share)), color="black", linestyle=style, linewidth=1)
        axes.set_xscale("log")
        axes.set_title(name, fontsize="small")
        axes.tick_params(labelsize="small")
    for place in range(len(lengths), len(drawn)):
        drawn[place].remove()
        drawn[place - n_columns].tick_params(labelbottom=True)
    figure.supxlabel(f"length of a {label} (tokens, logarithmic)", fontsize="small")
    figure.supylabel(f"{label}s (%)", fontsize="small")
    return drawn[: len(lengths)]


def fan_in(parent_ids: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Bars: how many parents hold 1, 2, 3 ... of the given children.

    Args:
        parent_ids: one parent id for each child.

    Raises:
        ValueError: ``parent_ids`` is empty.
    """
    if not parent_ids:
        raise ValueError("parent_ids is empty: there is nothing to draw")
    axes = _axes(ax)
    sizes = Counter(Counter(parent_ids).values())
    axes.bar(list(sizes), list(sizes.values()), color=COLORS["parent"])
    axes.set_xticks(range(1, max(sizes) + 1))
    axes.set_xlabel("children of one parent (fan-in)")
    axes.set_ylabel("number of parents")
    return axes


def hit_map(spans: Mapping[str, Sequence[Span]], *, length: int, ax: Axes | None = None) -> Axes:
    """One document as a line of characters, one row a role: where hits, windows, parents and gold lie.

    Args:
        spans: role (a key of ``COLORS``) to the spans of one document, drawn from top to bottom.
        length: the document's length in characters.

    Raises:
        ValueError: spans of more than one document, or an unknown role.
    """
    doc_ids = {span.doc_id for known in spans.values() for span in known}
    if len(doc_ids) > 1:
        raise ValueError(
            f"spans lie in {len(doc_ids)} documents ({', '.join(sorted(doc_ids))}): draw one at a time"
        )
    unknown = sorted(set(spans) - set(COLORS))
    if unknown:
        raise ValueError(f"role {unknown[0]!r} is unknown: use one of {', '.join(COLORS)}")
    axes = _axes(ax, height=0.8 + 0.45 * len(spans))
    for row, (role, known) in enumerate(spans.items()):
        bars = [(span.start, len(span)) for span in known]
        # A white edge parts neighbours; on a bar of a few pixels it would hide the bar.
        edges = ["white" if len(span) * 100 > length else COLORS[role] for span in known]
        axes.broken_barh(bars, (row - 0.35, 0.7), facecolors=COLORS[role], edgecolors=edges, linewidth=0.5)
    axes.set_yticks(range(len(spans)), list(spans))
    axes.invert_yaxis()
    axes.set_xlim(0, length)
    axes.set_xlabel("place in the document (characters)")
    return axes


def quality_tokens(
    points: Mapping[str, tuple[float, Interval]],
    *,
    roles: Mapping[str, str] | None = None,
    ylabel: str = "complete claims (share)",
    ax: Axes | None = None,
) -> Axes:
    """Quality with its interval against tokens per prompt, one named point a strategy.

    Args:
        points: name to (mean tokens per prompt, quality).
        roles: name to a key of ``COLORS``; ``hit`` where absent.
    """
    axes = _axes(ax)
    for name, (n_tokens, quality) in points.items():
        color = COLORS[(roles or {}).get(name, "hit")]
        bars = [[quality.mean - quality.low], [quality.high - quality.mean]]
        axes.errorbar([n_tokens], [quality.mean], yerr=bars, fmt="o", color=color, capsize=3)
        axes.annotate(name, (n_tokens, quality.mean), xytext=(6, 4), textcoords="offset points")
    axes.set_xlabel("tokens per prompt (mean)")
    axes.set_ylabel(ylabel)
    axes.set_ylim(0, 1.05)
    axes.margins(x=0.15)
    return axes


def sweep(
    values: Sequence[float],
    qualities: Sequence[Interval],
    *,
    xlabel: str,
    role: str = "window",
    label: str | None = None,
    ylabel: str = "complete claims (share)",
    control: Interval | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Quality with its interval for each value of one knob, and the control as a grey band.

    Raises:
        ValueError: as many qualities as values are needed.
    """
    if len(values) != len(qualities):
        raise ValueError(f"{len(values)} values and {len(qualities)} qualities: give one for each")
    axes = _axes(ax)
    means: list[float] = [q.mean for q in qualities]
    axes.plot(values, means, "o-", color=COLORS[role], label=label)
    axes.fill_between(
        values, [q.low for q in qualities], [q.high for q in qualities], color=COLORS[role], alpha=0.2
    )
    if control is not None:
        band: dict[str, Any] = {"color": COLORS["dropped"], "alpha": 0.5, "label": "shuffled control"}
        axes.axhspan(control.low, max(control.high, control.low + 0.005), **band)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_ylim(0, 1.05)
    if label or control is not None:
        axes.legend(frameon=False)
    return axes
