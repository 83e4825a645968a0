"""Figures of strategies -> matplotlib Axes that set them side by side; part of ``plots``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .styles import COLORS, Look, legend_beside, looks, new_axes, panels, refuse_empty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .eval import Interval


def prompt_sizes(
    sizes: Mapping[str, Sequence[int]],
    *,
    budget: int,
    roles: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The share of a strategy's prompts that are larger than each size, with p50, p99, largest and budget.

    Both axes are logarithmic: where a curve meets the budget, its height is the share of the prompts
    that do not fit, down to a single one. The legend says it in numbers.

    Args:
        sizes: name of a strategy to the sizes of its prompts in tokens, before packing.
        budget: tokens; the faint line is a quarter of it, and what lies right of it is shaded.
        roles: name to a key of ``COLORS``; where absent, the name itself or ``hit``.

    Raises:
        ValueError: there is no strategy, or one without sizes; a size or the budget is below 1.
    """
    refuse_empty("sizes", sizes)
    least = min(min(values) for values in sizes.values())
    if least < 1 or budget < 1:
        raise ValueError(f"the least size={least} and budget={budget} must be at least 1")
    import numpy as np
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, StrMethodFormatter

    axes = new_axes(ax)
    drawn = looks(sizes, roles=roles)
    for (name, values), look in zip(sizes.items(), drawn, strict=True):
        ordered, n = np.sort(values), len(values)
        above = 1 - np.arange(n + 1) / n
        label = f"{name}: {float(np.mean(ordered > budget)):.1%} above"
        axes.step(
            [ordered[0], *ordered], above, color=look.color, linestyle=look.line, label=label, where="post"
        )
        for mark, place in zip("osD", [*np.percentile(ordered, [50, 99]), ordered[-1]], strict=True):
            height = max(float(np.mean(ordered > place)), 1 / n)
            axes.plot([place], [height], mark, color=look.color, markeredgecolor="black", zorder=3)
    for mark, label in zip("osD", ("p50", "p99", "largest"), strict=True):
        axes.plot([], [], mark, color="white", markeredgecolor="black", label=label)
    right = max(budget, *(max(values) for values in sizes.values())) * 1.2
    axes.axvline(budget, color="black", linewidth=1, label=f"budget = {budget:,}")
    axes.axvline(budget / 4, color="black", linewidth=0.8, alpha=0.5, label="a quarter of it")
    axes.axvspan(budget, right, color=COLORS["dropped"], alpha=0.2, linewidth=0)
    axes.axhline(0.01, color="black", linewidth=0.8, alpha=0.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(least / 1.2, right)
    axes.set_ylim(min(0.005, 0.5 / max(map(len, sizes.values()))), 1.4)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.set_xlabel("size of a prompt (tokens, logarithmic)")
    axes.set_ylabel("larger prompts (share)")
    legend_beside(axes)
    return axes


def quality_tokens(
    points: Mapping[str, tuple[float, Interval]],
    *,
    roles: Mapping[str, str] | None = None,
    ylabel: str = "complete claims (share)",
    ax: Axes | None = None,
) -> Axes:
    """Quality with its interval against tokens per prompt, one point a strategy, named in the legend.

    Args:
        points: name to (mean tokens per prompt, quality).
        roles: name to a key of ``COLORS``; where absent, the name itself or ``hit``.

    Raises:
        ValueError: there is no point.
    """
    refuse_empty("points", points)
    axes = new_axes(ax)
    _points(axes, points, dict(zip(points, looks(points, roles=roles), strict=True)))
    axes.set_xlabel("tokens per prompt (mean)")
    axes.set_ylabel(ylabel)
    axes.margins(x=0.15)
    legend_beside(axes)
    return axes


def quality_grid(
    points: Mapping[str, Mapping[str, tuple[float, Interval]]],
    *,
    roles: Mapping[str, str] | None = None,
    ylabel: str = "complete claims (share)",
    columns: int = 4,
) -> list[Axes]:
    """Quality against tokens as in ``quality_tokens``, one small panel a corpus over the same axes.

    Args:
        points: name of a corpus to its strategies, each to (mean tokens per prompt, quality). A strategy
            looks the same in every panel, also where others are absent.

    Raises:
        ValueError: there is no corpus, or one without a point.
    """
    refuse_empty("points", points)
    figure, drawn = panels(points, columns=columns, sharey=True)
    names = list(dict.fromkeys(name for inner in points.values() for name in inner))
    known = dict(zip(names, looks(names, roles=roles), strict=True))
    handles: dict[str, Any] = {}
    for axes, inner in zip(drawn, points.values(), strict=True):
        handles = _points(axes, inner, known) | handles
        axes.locator_params(axis="x", nbins=3)
        axes.grid(axis="y", alpha=0.3)
    drawn[0].margins(x=0.15)
    figure.legend(
        [handles[name] for name in names], names, loc="outside right center", frameon=False, fontsize="small"
    )
    figure.supxlabel("tokens per prompt (mean)", fontsize="small")
    figure.supylabel(ylabel, fontsize="small")
    return drawn


def _points(
    axes: Axes, points: Mapping[str, tuple[float, Interval]], known: Mapping[str, Look]
) -> dict[str, Any]:
    handles = {}
    for name, (n_tokens, quality) in points.items():
        look = known[name]
        handles[name] = axes.errorbar(
            [n_tokens],
            [quality.mean],
            yerr=_arms([quality]),
            fmt=look.marker,
            color=look.color,
            capsize=3,
            label=name,
        )
    axes.set_ylim(0, 1.05)
    return handles


def _arms(intervals: Sequence[Interval]) -> list[list[float]]:
    """How far each interval reaches below and above its mean, as error bars want it."""
    return [[each.mean - each.low for each in intervals], [each.high - each.mean for each in intervals]]


def sweep(
    values: Sequence[float],
    qualities: Sequence[Interval] | Mapping[Any, Sequence[Interval]],
    *,
    xlabel: str,
    role: str = "window",
    label: str | None = None,
    ylabel: str = "complete claims (share)",
    control: Interval | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Quality with its interval for each value of one knob, and the control as a grey band.

    Args:
        qualities: one for each value; or, to sweep a second knob, each value of that to its qualities.
            One line has a band for its intervals. Several lines, all of one role, are darker in turn and
            have bars, which stand a little apart so that none hides another.
        label: of the line, or of the second knob.

    Raises:
        ValueError: as many qualities as values are needed.
    """
    curves = qualities if isinstance(qualities, Mapping) else {label: qualities}
    for curve in curves.values():
        if len(values) != len(curve):
            raise ValueError(f"{len(values)} values and {len(curve)} qualities: give one for each")
    from matplotlib.transforms import ScaledTranslation

    axes = new_axes(ax)
    # Caps of error bars are lines without a style.
    first = sum(line.get_linestyle() != "None" for line in axes.lines)
    names = [str(name) for name in curves]
    drawn = looks(names, roles=dict.fromkeys(names, role), first=first)
    for turn, ((name, curve), look) in enumerate(zip(curves.items(), drawn, strict=True)):
        means = [quality.mean for quality in curve]
        style: dict[str, Any] = {"color": look.color, "marker": look.marker, "linestyle": look.line}
        if curves is qualities:
            points = 4 * (turn - (len(curves) - 1) / 2)
            moved = axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
            bars = axes.errorbar(
                values, means, _arms(curve), **style, capsize=2, label=f"{label or ''} {name}".strip()
            )
            # Moved when they are drawn: what is not in data coordinates is left out of the axes' limits.
            for part in bars.get_children():
                part.set_transform(moved)
        else:
            axes.plot(values, means, **style, label=name)
            low, high = [quality.low for quality in curve], [quality.high for quality in curve]
            axes.fill_between(values, low, high, color=look.color, alpha=0.2)
    if control is not None:
        band: dict[str, Any] = {"color": COLORS["dropped"], "alpha": 0.5, "label": "shuffled control"}
        axes.axhspan(control.low, max(control.high, control.low + 0.005), **band)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_ylim(0, 1.05)
    if curves is qualities or label or control is not None:
        legend_beside(axes)
    return axes


def forest(
    comparisons: Mapping[str, Interval], *, unit: str = "complete claims, share", ax: Axes | None = None
) -> Axes:
    """Differences with their intervals, one a row, around a line at zero; the figures stand beside.

    A filled marker says that the interval leaves zero out (higher or lower), a hollow one that the
    difference is not distinguishable.

    Args:
        comparisons: name to its paired difference (``Comparison.difference``), from top to bottom.
        unit: of the difference.

    Raises:
        ValueError: there is no comparison.
    """
    if not comparisons:
        raise ValueError("comparisons is empty: there is nothing to draw")
    axes = new_axes(ax, height=0.9 + 0.28 * len(comparisons))
    size = "small" if len(comparisons) <= 12 else "x-small"
    axes.axvline(0, color="black", linewidth=1)
    for row, difference in enumerate(comparisons.values()):
        told = difference.low > 0 or difference.high < 0
        axes.errorbar(
            [difference.mean],
            [row],
            xerr=_arms([difference]),
            fmt="o",
            color=COLORS["hit"],
            markerfacecolor=COLORS["hit"] if told else "white",
            capsize=3,
        )
        figures = f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"
        axes.annotate(figures, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=size)
    axes.set_yticks(range(len(comparisons)), list(comparisons), fontsize=size)
    axes.set_ylim(len(comparisons) - 0.5, -0.5)
    reach = 1.1 * max(max(abs(each.low), abs(each.high)) for each in comparisons.values())
    axes.set_xlim(-reach or -1, reach or 1)
    axes.set_xlabel(f"difference ({unit}); filled: zero is outside")
    return axes


def cost(
    rows: Mapping[str, float],
    *,
    price_per_million: float,
    questions: int = 10_000,
    currency: str = "USD",
    roles: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Bars: what a month of each strategy's prompts costs, with the figure beside each.

    Args:
        rows: name of a strategy to its tokens a question (mean), drawn from top to bottom.
        price_per_million: of a million tokens, in ``currency``.
        questions: asked in a month.
        roles: name to a key of ``COLORS``; where absent, the name itself or ``hit``.

    Raises:
        ValueError: there is no row, or a number is below 0.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to draw")
    if price_per_million < 0 or questions < 0 or min(rows.values()) < 0:
        raise ValueError("rows, price_per_million and questions must be at least 0")
    axes = new_axes(ax, height=0.9 + 0.35 * len(rows))
    costs = [n_tokens * questions * price_per_million / 1e6 for n_tokens in rows.values()]
    bars = axes.barh(range(len(rows)), costs, color=[look.color for look in looks(rows, roles=roles)])
    axes.bar_label(bars, [f"{each:,.2f}" for each in costs], padding=4)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(
        f"cost a month ({currency}; {questions:,} questions, {price_per_million:g} a million tokens)"
    )
    return axes
