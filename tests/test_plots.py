"""Plots hold the numbers that they were given; the test reads them off the Axes."""

from functools import partial
from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from cookbook import plots
from cookbook.eval import Interval
from cookbook.styles import looks
from cookbook.types import Span


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def at(mean, half=0.1, n=10):
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n)


def errorbar(bars):
    """Label, places and the ends of the intervals."""
    line, _, (arms,) = bars
    ends = [tuple(segment[:, 1].round(6).tolist()) for segment in arms.get_segments()]
    return bars.get_label(), line.get_xdata().tolist(), ends


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


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


def test_hit_map_names_a_row_other_than_its_role():
    axes = plots.hit_map(
        {"section": [Span(doc_id="a", start=5, end=9)]}, length=9, roles={"section": "parent"}
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["section"]
    assert to_hex(axes.collections[0].get_facecolor()[0]).upper() == plots.COLORS["parent"]


def test_hit_map_refuses_two_documents_and_unknown_roles():
    spans = [Span(doc_id="a", start=0, end=1), Span(doc_id="b", start=0, end=1)]
    with pytest.raises(ValueError, match="2 documents"):
        plots.hit_map({"hit": spans}, length=10)
    with pytest.raises(ValueError, match="'node'"):
        plots.hit_map({"node": spans[:1]}, length=10)


def test_quality_against_tokens_places_each_strategy():
    axes = plots.quality_tokens(
        {"flat": (900.0, at(0.4)), "big": (1800.0, at(0.7, 0.2))}, roles={"big": "parent"}
    )
    drawn = [errorbar(bars) for bars in axes.containers]
    assert drawn == [("flat", [900], [(0.3, 0.5)]), ("big", [1800], [(0.5, 0.9)])]
    marks = [bars[0] for bars in axes.containers]
    assert [mark.get_color() for mark in marks] == [plots.COLORS["hit"], plots.COLORS["parent"]]
    assert marks[0].get_marker() != marks[1].get_marker()
    assert legend(axes) == ["flat", "big"]


def test_quality_grid_draws_a_panel_a_corpus_where_a_strategy_looks_the_same():
    panels = plots.quality_grid(
        {
            "wiki": {"flat": (900.0, at(0.4)), "parent": (1800.0, at(0.7))},
            "logs": {"parent": (1500.0, at(0.2)), "page": (4000.0, at(0.3))},
        }
    )
    assert [axes.get_title() for axes in panels] == ["wiki", "logs"]
    assert [errorbar(bars) for bars in panels[1].containers] == [
        ("parent", [1500], [(0.1, 0.3)]),
        ("page", [4000], [(0.2, 0.4)]),
    ]
    in_wiki, in_logs = (axes.containers[i][0] for axes, i in zip(panels, (1, 0), strict=True))
    assert (in_wiki.get_color(), in_wiki.get_marker()) == (in_logs.get_color(), in_logs.get_marker())
    assert panels[0].get_xlim() == panels[1].get_xlim()
    assert [text.get_text() for text in panels[0].figure.legends[0].get_texts()] == ["flat", "parent", "page"]


def test_sweep_draws_means_interval_and_control():
    axes = plots.sweep([0, 1, 2], [at(0.2), at(0.5), at(0.6)], xlabel="radius", control=at(0.03, 0.02))
    assert list(axes.lines[0].get_ydata()) == [0.2, 0.5, 0.6]
    assert axes.get_legend().get_texts()[0].get_text() == "shuffled control"
    with pytest.raises(ValueError, match="3 values and 1"):
        plots.sweep([0, 1, 2], [at(0.2)], xlabel="radius")
    band = axes.collections[0].get_paths()[0].vertices
    assert {(x, round(y, 6)) for x, y in band} >= {(0, 0.1), (0, 0.3), (2, 0.5), (2, 0.7)}


def test_sweep_on_the_same_axes_takes_another_marker_and_line():
    axes = plots.sweep([1, 2], [at(0.2), at(0.3)], xlabel="k", label="window")
    plots.sweep([1, 2], [at(0.4), at(0.5)], xlabel="k", role="parent", label="parent", ax=axes)
    plots.sweep([1, 2], {0: [at(0.4), at(0.5)]}, xlabel="k", role="page", label="radius", ax=axes)
    drawn = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert len({(line.get_marker(), line.get_linestyle()) for line in drawn}) == len(drawn) == 3
    assert [line.get_color() for line in drawn] == [plots.COLORS[r] for r in ("window", "parent", "page")]


def test_sweep_of_two_knobs_draws_a_line_with_bars_for_each_value_of_the_second():
    curves = {0: [at(0.2), at(0.3)], 2: [at(0.4), at(0.5, 0.2)]}
    axes = plots.sweep([4, 8], curves, xlabel="k", label="radius", control=at(0.03, 0.02))
    assert [errorbar(bars) for bars in axes.containers] == [
        ("radius 0", [4, 8], [(0.1, 0.3), (0.2, 0.4)]),
        ("radius 2", [4, 8], [(0.3, 0.5), (0.3, 0.7)]),
    ]
    assert set(legend(axes)) == {"radius 0", "radius 2", "shuffled control"}
    lines = [bars[0] for bars in axes.containers]
    first, second = (line.get_transform().transform((4, 0.5)) for line in lines)
    assert first[0] < second[0] and first[1] == second[1]
    low, high = axes.get_xlim()
    assert 3 < low < 4 and 8 < high < 9
    with pytest.raises(ValueError, match="2 values and 1"):
        plots.sweep([4, 8], {0: [at(0.2)]}, xlabel="k")


def test_prompt_sizes_is_the_share_above_each_size_with_percentiles_and_budget():
    sizes = [*range(1, 981), *[4000] * 5, *range(5001, 5016)]
    axes = plots.prompt_sizes({"section": sizes, "window": [500]}, budget=4000, roles={"section": "parent"})
    curve = axes.lines[0]
    steps = list(zip(*curve.get_data(), strict=True))
    assert steps[0] == (1, 1)
    assert (980, pytest.approx(0.02)) in steps and (5015, 0) in steps
    assert curve.get_drawstyle() == "steps-post" and curve.get_color() == plots.COLORS["parent"]
    # A prompt as large as the budget fits.
    assert legend(axes)[:2] == ["section: 1.5% above", "window: 0.0% above"]
    marks = [(line.get_marker(), *line.get_xydata()[0].round(3)) for line in axes.lines[1:4]]
    assert marks == [("o", 500.5, 0.5), ("s", pytest.approx(5005.01), 0.01), ("D", 5015, 0.001)]
    lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2}
    assert lines["budget = 4,000"] == 4000 and lines["a quarter of it"] == 1000
    assert axes.get_xscale() == axes.get_yscale() == "log" and "tokens" in axes.get_xlabel()
    assert axes.get_xlim()[1] > 5015 and axes.get_ylim()[0] < 0.001


def test_prompt_sizes_labels_shares_below_a_percent():
    axes = plots.prompt_sizes({"section": range(1, 2001)}, budget=500)
    axes.figure.canvas.draw()
    assert {"0.1%", "1%", "10%", "100%"} <= {label.get_text() for label in axes.get_yticklabels()}


@pytest.mark.parametrize(
    ("sizes", "budget", "told"),
    [({}, 9, "empty"), ({"a": []}, 9, "'a'"), ({"a": [0, 3]}, 9, "size=0"), ({"a": [1]}, 0, "budget=0")],
)
def test_prompt_sizes_refuses_what_a_logarithm_has_no_place_for(sizes, budget, told):
    with pytest.raises(ValueError, match=told):
        plots.prompt_sizes(sizes, budget=budget)


def test_forest_fills_the_marker_where_zero_is_outside():
    axes = plots.forest(
        {"up": at(0.2), "unclear": at(0.05), "down": at(-0.2), "touches": at(0.1)}, unit="MRR"
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["up", "unclear", "down", "touches"]
    marks = [bars[0] for bars in axes.containers]
    assert [tuple(mark.get_xydata()[0]) for mark in marks] == [(0.2, 0), (0.05, 1), (-0.2, 2), (0.1, 3)]
    assert [mark.get_markerfacecolor() == "white" for mark in marks] == [False, True, False, True]
    arms = [bars[2][0].get_segments()[0][:, 0].round(6).tolist() for bars in axes.containers]
    assert arms == [[0.1, 0.3], [-0.05, 0.15], [-0.3, -0.1], [0, 0.2]]
    assert [text.get_text() for text in axes.texts][1:3] == ["+0.05 [-0.05, +0.15]", "-0.20 [-0.30, -0.10]"]
    assert list(axes.lines[0].get_xdata()) == [0, 0] and "MRR" in axes.get_xlabel()
    low, high = axes.get_xlim()
    assert low == -high and high > 0.3
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_forest_of_no_difference_at_all_has_an_axis():
    assert plots.forest({"same": Interval(mean=0, low=0, high=0, n=3)}).get_xlim() == (-1, 1)


def test_cost_is_tokens_times_questions_times_price():
    axes = plots.cost({"flat": 1000.0, "page": 2500.0}, price_per_million=0.5, questions=20_000)
    assert [bar.get_width() for bar in axes.patches] == [10, 25]
    assert [text.get_text() for text in axes.texts] == ["10.00", "25.00"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["flat", "page"]
    assert to_hex(axes.patches[1].get_facecolor()).upper() == plots.COLORS["page"]
    for part in ("month", "USD", "20,000 questions", "0.5 a million"):
        assert part in axes.get_xlabel()
    with pytest.raises(ValueError, match="at least 0"):
        plots.cost({"flat": -1.0}, price_per_million=0.5)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.hit_map({role: [Span(doc_id="a", start=0, end=1)] for role in plots.COLORS}, length=9),
        lambda: plots.forest({f"row {i}": at(0.1) for i in range(20)}),
        lambda: plots.cost({f"row {i}": 100.0 for i in range(20)}, price_per_million=1),
        lambda: plots.prompt_sizes({f"row {i}": [100, 200] for i in range(7)}, budget=150),
        lambda: plots.quality_tokens({f"row {i}": (100.0 * i, at(0.5)) for i in range(9)}),
        lambda: plots.quality_grid({str(i): {"flat": (100.0, at(0.5))} for i in range(7)})[0],
        lambda: plots.sweep([1, 2], {r: [at(0.2), at(0.3)] for r in range(6)}, xlabel="k", label="radius"),
        lambda: plots.forest({f"searched, api_reference, row {i}": at(0.1) for i in range(12)}),
        lambda: plots.length_grid({str(i): [10, 20, 3000] for i in range(7)})[0],
    ],
)
def test_a_figure_keeps_its_size_and_hides_none_of_its_text(draw):
    figure = draw().figure
    figure.canvas.draw()
    width, height = figure.get_size_inches()
    assert width <= 7 and height <= 3 and figure.get_dpi() == 80
    tight = figure.get_tightbbox()
    assert tight.x0 >= -0.01 and tight.y0 >= -0.01 and tight.x1 <= width + 0.01 and tight.y1 <= height + 0.01


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.sweep([1, 2], [at(0.8), at(0.8)], xlabel="k", control=at(0.1), ax=ax),
        lambda ax: plots.sweep([1, 2], [at(0.2), at(0.9)], xlabel="k", label="same search", ax=ax),
        lambda ax: plots.sweep([1, 2], {0: [at(0.2), at(0.9)]}, xlabel="k", label="radius", ax=ax),
        lambda ax: plots.length_histogram([151, 811, 896, 900], label="parent chunks", limit=900, ax=ax),
    ],
)
def test_no_legend_covers_data_nor_runs_out_of_the_figure_also_on_half_its_width(draw):
    figure, both = plt.subplots(1, 2, figsize=plots.SIZE_INCHES, dpi=plots.DPI, layout="constrained")
    drawn = [draw(ax) for ax in both]
    figure.canvas.draw()
    for axes in drawn:
        legend_box = axes.get_legend().get_window_extent()
        assert not any(legend_box.overlaps(other.get_window_extent()) for other in both)
        assert legend_box.x0 >= 0 and legend_box.x1 <= figure.bbox.x1 and legend_box.y1 <= figure.bbox.y1


def test_names_of_one_role_differ_in_shade_marker_and_line():
    drawn = looks(["r0", "r1", "r2", "page"], roles=dict.fromkeys(["r0", "r1", "r2"], "window"))
    for part in zip(*drawn, strict=True):
        assert len(set(part)) == 4
    assert (drawn[0].color, drawn[3].color) == (plots.COLORS["window"], plots.COLORS["page"])
    with pytest.raises(ValueError, match="'node'"):
        looks(["a"], roles={"a": "node"})


@pytest.mark.parametrize(
    ("draw", "nothing"),
    [
        (plots.length_histogram, []),
        (plots.fan_in, []),
        (plots.quality_tokens, {}),
        (plots.quality_grid, {"wiki": {}}),
        (plots.forest, {}),
        (partial(plots.cost, price_per_million=1), {}),
    ],
)
def test_nothing_to_draw_is_an_error(draw, nothing):
    with pytest.raises(ValueError, match="empty"):
        draw(nothing)


def test_role_colours_differ_in_lightness_too():
    def lightness(color):
        r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    drawn_together = [plots.COLORS[role] for role in ("hit", "window", "parent")]
    values = sorted(map(lightness, drawn_together))
    assert min(b - a for a, b in pairwise(values)) > 0.05
    assert len(set(plots.COLORS.values())) == len(plots.COLORS)
