"""Plots hold the numbers that they were given; the test reads them off the Axes."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from cookbook import plots
from cookbook.eval import Interval
from cookbook.types import Span


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def at(mean, half=0.1, n=10):
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n)


def test_histogram_counts_every_length_and_marks_percentiles_and_limit():
    axes = plots.length_histogram([10, 20, 20, 30], limit=25, bins=4)
    assert sum(bar.get_height() for bar in axes.patches) == 4
    places = [line.get_xdata()[0] for line in axes.lines]
    assert places == pytest.approx([20, 28.5, 25])
    assert "tokens" in axes.get_xlabel()


def test_length_grid_draws_one_panel_a_corpus_in_percent():
    panels = plots.length_grid({"wiki": [10, 20, 20, 30], "logs": [400, 500]}, label="page")
    assert [axes.get_title() for axes in panels] == ["wiki", "logs"]
    assert sum(bar.get_height() for bar in panels[0].patches) == pytest.approx(100)
    assert [line.get_xdata()[0] for line in panels[1].lines] == pytest.approx([450, 495])
    assert panels[0].get_xscale() == "log" and panels[0].get_xlim() == panels[1].get_xlim()
    with pytest.raises(ValueError, match="'logs'"):
        plots.length_grid({"wiki": [1], "logs": []})


def test_length_grid_labels_the_axis_below_the_last_panel_of_each_column():
    panels = plots.length_grid({"wiki": [10], "logs": [40], "calls": [20]}, columns=2)
    below = [any(tick.get_visible() for tick in axes.get_xticklabels()) for axes in panels]
    assert below == [False, True, True]


def test_fan_in_counts_parents_by_their_children():
    axes = plots.fan_in(["p1", "p1", "p1", "p2", "p3"])
    bars = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in axes.patches}
    assert bars == {3: 1, 1: 2}


def test_hit_map_draws_one_row_a_role_at_the_spans():
    axes = plots.hit_map(
        {"hit": [Span(doc_id="a", start=5, end=9)], "window": [Span(doc_id="a", start=0, end=20)]}, length=100
    )
    boxes = [collection.get_paths()[0].get_extents() for collection in axes.collections]
    assert [(box.x0, box.x1) for box in boxes] == [(5, 9), (0, 20)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hit", "window"]
    assert axes.get_xlim() == (0, 100)


def test_hit_map_keeps_thin_bars_visible():
    spans = [Span(doc_id="a", start=0, end=20), Span(doc_id="a", start=40, end=41)]
    [bars] = plots.hit_map({"hit": spans}, length=1000).collections
    white, own = map(to_hex, bars.get_edgecolors())
    assert (white, own.upper()) == ("#ffffff", plots.COLORS["hit"])


def test_hit_map_refuses_two_documents_and_unknown_roles():
    spans = [Span(doc_id="a", start=0, end=1), Span(doc_id="b", start=0, end=1)]
    with pytest.raises(ValueError, match="2 documents"):
        plots.hit_map({"hit": spans}, length=10)
    with pytest.raises(ValueError, match="'node'"):
        plots.hit_map({"node": spans[:1]}, length=10)


def test_quality_against_tokens_places_each_strategy():
    axes = plots.quality_tokens(
        {"flat": (900.0, at(0.4)), "parent": (1800.0, at(0.7))}, roles={"parent": "parent"}
    )
    assert [tuple(map(float, text.xy)) for text in axes.texts] == [(900.0, 0.4), (1800.0, 0.7)]
    assert [text.get_text() for text in axes.texts] == ["flat", "parent"]


def test_sweep_draws_means_interval_and_control():
    axes = plots.sweep([0, 1, 2], [at(0.2), at(0.5), at(0.6)], xlabel="radius", control=at(0.03, 0.02))
    assert list(axes.lines[0].get_ydata()) == [0.2, 0.5, 0.6]
    assert axes.get_legend().get_texts()[0].get_text() == "shuffled control"
    with pytest.raises(ValueError, match="3 values and 1"):
        plots.sweep([0, 1, 2], [at(0.2)], xlabel="radius")


@pytest.mark.parametrize("draw", [plots.length_histogram, plots.fan_in])
def test_nothing_to_draw_is_an_error(draw):
    with pytest.raises(ValueError, match="empty"):
        draw([])


def test_role_colours_differ_in_lightness_too():
    def lightness(color):
        r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    drawn_together = [plots.COLORS[role] for role in ("hit", "window", "parent")]
    values = sorted(map(lightness, drawn_together))
    assert min(b - a for a, b in pairwise(values)) > 0.05
    assert len(set(plots.COLORS.values())) == len(plots.COLORS)
