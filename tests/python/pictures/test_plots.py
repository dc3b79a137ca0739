"""Plots show the right values, and measured and modelled values look different."""

import builtins
from dataclasses import replace

import numpy as np
import pytest

import coalesce
from coalesce import plots
from coalesce.plots import Sweep, Work

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    """Draw without a screen; close every figure after the test."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    yield plt
    plt.close("all")


class Profile:
    """A stand-in for a profile with only the attributes that a plot needs."""

    def __init__(self, title, measured_ms=None, modelled_ms=None, sectors=4.0, dram=None):
        self.title, self.measured_ms, self.modelled_ms = title, measured_ms, modelled_ms
        self.sectors_per_request = {"load": sectors}
        self.sectors, self.dram = sectors, dram
        self.flops = {"float32": 0}

    def metrics(self):
        names = ("dram__bytes_read.sum", "dram__bytes_write.sum")
        traffic = {} if self.dram is None else dict(zip(names, self.dram, strict=True))
        return {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": self.sectors, **traffic}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def bar_texts(ax):
    return [text.get_text() for text in ax.texts]


class TestSweep:
    def test_sectors_of_strides(self):
        sweep = Sweep.run("stride", range(1, 10))
        assert sweep.sectors.tolist() == [4, 8, 12, 16, 20, 24, 28, 32, 32]
        assert sweep.ideal.tolist() == [4] * 9
        assert sweep.gbps is None

    def test_sectors_of_offsets(self):
        sweep = Sweep.run("offset", [0, 1, 7, 8], itemsize=8)
        assert sweep.sectors.tolist() == [8, 9, 9, 8]
        assert sweep.ideal.tolist() == [8] * 4

    def test_sectors_of_widths(self):
        sweep = Sweep.run("vector")
        assert sweep.values.tolist() == [1, 2, 4, 8, 16]
        assert sweep.sectors.tolist() == sweep.ideal.tolist() == [1, 2, 4, 8, 16]

    def test_counts_alone_are_one_panel(self):
        axes = plots.sweep("stride", [1, 2, 8])
        assert axes.shape == (1,)
        steps, dots, ideal = axes[0].lines
        assert (
            steps.get_xydata().tolist() == dots.get_xydata().tolist() == [[1, 4], [2, 8], [8, 32]]
        )
        assert ideal.get_ydata().tolist() == [4, 4, 4]
        assert axes[0].get_ylabel() == "sectors per request"
        assert axes[0].get_xlabel() == "stride: elements from one lane to the next"

    def test_measured_is_solid_and_modelled_is_dashed(self):
        measured = replace(Sweep.run("stride", [1, 2]), gbps=np.array([9.0, 5.0]), device="a GPU")
        modelled = replace(measured, source="modelled")
        looks = []
        for sweep in (measured, modelled):
            axes = plots.sweep(sweep)
            (line,) = axes[1].lines
            looks.append((line.get_linestyle(), line.get_markerfacecolor() != "none"))
            assert legend(axes[1]) == [f"{sweep.source} on a GPU"]
        assert looks == [("-", True), ("--", False)]

    def test_a_simulated_gpu_is_modelled(self):
        sweep = Sweep.run("stride", [1, 8], device="sim")
        assert sweep.source == "modelled"
        assert sweep.gbps is not None
        assert sweep.gbps[0] > sweep.gbps[1] > 0

    def test_axes_of_the_caller(self, figures):
        _, given = figures.subplots(1, 2)
        drawn = plots.sweep(Sweep.run("stride", [1, 2], device="sim"), ax=given)
        assert list(drawn) == list(given)
        assert len(figures.get_fignums()) == 1
        with pytest.raises(ValueError, match="`ax` must be 2 Axes, one for each panel; got 1"):
            plots.sweep(Sweep.run("stride", [1], device="sim"), ax=given[0])

    def test_on_a_gpu(self, device, monkeypatch):
        if device != "cuda":
            pytest.skip("needs --device cuda")
        monkeypatch.delenv("COALESCE_DEVICE")
        sweep = Sweep.run("stride", [1, 8, 32])
        assert sweep.source == "measured"
        assert sweep.gbps.shape == (3,)
        assert (sweep.gbps > 0).all()
        assert plots.sweep(sweep).shape == (2,)


class TestBars:
    def test_modelled_bars_are_hatched_and_labelled(self):
        ax = plots.bars({"a": 3, "b": 1.5, "c": 0}, modelled=["b"], label="ms")
        assert [patch.get_width() for patch in ax.patches] == [3, 1.5, 0]
        assert [bool(patch.get_hatch()) for patch in ax.patches] == [False, True, False]
        assert legend(ax) == ["measured", "modelled (an estimate)"]
        assert bar_texts(ax) == ["3", "1.5", "0"]
        assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
        assert ax.yaxis_inverted()

    def test_counts_need_no_legend(self):
        assert legend(plots.bars({"a": 3})) == []
        assert legend(plots.bars({"a": 3}, modelled=True)) == ["modelled (an estimate)"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"values": {}}, "at least one bar"),
            ({"values": {"a": float("nan")}}, "'a' is nan"),
            ({"values": {"a": 1}, "modelled": ["b"]}, "`modelled` contains 'b'"),
            ({"values": {"a": 1}, "highlight": ["b"]}, "`highlight` contains 'b'"),
            ({"values": {"a": 1}, "theme": "blue"}, "`theme` must be one of 'light'.*got 'blue'"),
        ],
    )
    def test_bad_input_is_named(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            plots.bars(**arguments)

    def test_axes_have_their_own_colours(self, figures):
        _, ax = figures.subplots()
        assert plots.bars({"a": 1}, ax=ax) is ax
        with pytest.raises(ValueError, match="`theme` and `ax` cannot be combined"):
            plots.bars({"a": 1}, ax=ax, theme="dark")

    def test_themes_color_the_figure_and_nothing_else(self, figures):
        before = dict(figures.rcParams)
        dark = plots.bars({"a": 1}, theme="dark").figure
        clear = plots.bars({"a": 1}, theme="transparent").figure
        assert matplotlib.colors.to_hex(dark.get_facecolor()) == "#14171c"
        assert clear.get_facecolor()[3] == 0
        assert dict(figures.rcParams) == before


class TestLadder:
    def test_profiles_by_their_time(self):
        ax = plots.ladder([Profile("slow", modelled_ms=8.0), Profile("fast", 2.0, 3.0)])
        assert [patch.get_width() for patch in ax.patches] == [8, 2]
        assert [bool(patch.get_hatch()) for patch in ax.patches] == [True, False]
        assert ax.get_xlabel() == "milliseconds"

    def test_profiles_by_their_sectors(self):
        ax = plots.ladder({"naive": Profile("x", sectors=32.0), "b": Profile("x")}, of="sectors")
        assert [patch.get_width() for patch in ax.patches] == [32, 4]
        assert legend(ax) == []

    def test_timings(self):
        a = np.ones((32, 32), np.float32)
        timings = {
            v: coalesce.matmul(a, a, variant=v, return_timing=True)[1] for v in ("naive", "tiled")
        }
        ax = plots.ladder(timings, of="gflops")
        assert [p.get_width() for p in ax.patches] == [t.gflops for t in timings.values()]
        assert legend(ax) == ["modelled (an estimate)"]

    def test_profiles_of_the_package(self):
        x = np.ones(4096, np.float32)
        profiles = {
            f"stride {n}": coalesce.profile("access", x, pattern="stride", stride=n) for n in (1, 8)
        }
        ax = plots.ladder(profiles, of="sectors")
        assert [patch.get_width() for patch in ax.patches] == [512, 512]
        assert ax.get_xlabel() == "sectors, global loads"
        assert len(plots.ladder(profiles).patches) == 2

    def test_bars_of_sectors_rank_a_tile_before_the_kernel_without(self):
        a = np.ones((64, 64), np.float32)
        profiles = {
            v: coalesce.profile("matmul", a, a, variant=v, device="sim")
            for v in ("coalesced", "tiled")
        }
        untiled, tiled = (p.get_width() for p in plots.ladder(profiles, of="sectors").patches)
        assert untiled == 20 * tiled

    def test_transparent_plots_get_no_plate_in_notebooks(self):
        inline = pytest.importorskip("matplotlib_inline.backend_inline")
        ax = plots.bars({"a": 1, "b": 2}, label="x", theme="transparent")
        ax.figure.canvas.draw()
        assert inline._fetch_figure_metadata(ax.figure) is None

    @pytest.mark.parametrize(
        ("variants", "of", "error", "message"),
        [
            ([], "time", ValueError, "at least one profile; it is empty"),
            ([3], "time", TypeError, "must be profiles, or a mapping .*got int 3"),
            ([Profile("a"), Profile("a")], "time", ValueError, "two profiles with the title 'a'"),
            ([Profile("a")], "time", ValueError, "'a' has no time"),
            ([Profile("a")], "gflops", ValueError, "needs a Timing, but 'a' is a profile"),
            ([Profile("a")], "speed", ValueError, "`of` must be one of 'time', 'sectors'"),
        ],
    )
    def test_bad_input_is_named(self, variants, of, error, message):
        with pytest.raises(error, match=message):
            plots.ladder(variants, of=of)


class TestRoofline:
    def test_points_and_roof(self):
        work = {"a": Work(8e9, 2e9, 4.0, measured=True), "b": Work(8e9, 1e8, 2.0)}
        ax = plots.roofline(work, peak_gflops=60_000, peak_gbps=3_000)
        roof, a, b = ax.lines
        assert roof.get_xydata()[1].tolist() == [20, 60_000]  # the ridge of the roofline
        left, rate = roof.get_xydata()[0]
        assert rate == pytest.approx(left * 3_000)
        assert a.get_xydata().tolist() == [[4, 2000]]
        assert b.get_xydata().tolist() == [[80, 4000]]
        assert a.get_markerfacecolor() != "none"
        assert b.get_markerfacecolor() == "none"
        assert a.get_marker() != b.get_marker()
        assert legend(ax) == ["measured", "modelled (an estimate)"]
        (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
        for line in (a, b):
            assert x0 < line.get_xdata()[0] < x1
            assert y0 < line.get_ydata()[0] < y1

    def test_names_do_not_cover_points(self):
        work = {"left": Work(8e9, 1e8, 2.0), "right": Work(8e9, 6e7, 2.0), "far": Work(8e9, 2e9, 2)}
        ax = plots.roofline(work, peak_gflops=60_000, peak_gbps=3_000)
        sides = {text.get_text(): text.get_ha() for text in ax.texts}
        assert (sides["left"], sides["right"], sides["far"]) == ("right", "left", "left")

    def test_names_do_not_cover_names(self):
        work = {name: Work(8e9, 1e8, ms) for name, ms in (("a", 2.0), ("b", 2.05), ("c", 2.0))}
        work["far"] = Work(8e9, 1e8, 9.0)
        ax = plots.roofline(work, peak_gflops=60_000, peak_gbps=3_000)
        heights = {text.get_text(): text.xyann[1] for text in ax.texts}
        assert heights["b"] + 10 < heights["a"] < heights["c"] - 10
        assert heights["far"] == -3

    def test_profiles(self):
        profile = Profile("tiled", modelled_ms=4.0, dram=(1e9, 1e9))
        ax = plots.roofline([profile], peak_gflops=1e4, peak_gbps=1e3, flops={"tiled": 8e9})
        assert ax.lines[1].get_xydata().tolist() == [[4, 2000]]

    @pytest.mark.parametrize(
        ("kernels", "options", "message"),
        [
            ([Profile("a", 1.0, dram=(1, 1))], {}, "'a' executed no floating-point operation"),
            ([Profile("a", 1.0)], {"flops": 1.0}, "is missing in the profile of 'a'"),
            ([Profile("a", dram=(1, 1))], {"flops": 1.0}, "'a' has no time"),
            (
                {"a": Work(1, 1, 1)},
                {"peak_gbps": 0},
                "`peak_gbps` must be a positive number; got 0",
            ),
        ],
    )
    def test_bad_input_is_named(self, kernels, options, message):
        with pytest.raises(ValueError, match=message):
            plots.roofline(kernels, **{"peak_gflops": 1.0, "peak_gbps": 1.0, **options})


@pytest.mark.parametrize("theme", [None, "light", "dark", "transparent"])
def test_every_plot_can_be_saved(theme, tmp_path):
    work = {"a": Work(8e9, 2e9, 4.0)}
    for number, ax in enumerate(
        (
            plots.sweep("stride", [1, 2, 3], theme=theme)[0],
            plots.ladder([Profile("a", 1.0)], theme=theme),
            plots.roofline(work, peak_gflops=1e4, peak_gbps=1e3, theme=theme),
        )
    ):
        path = tmp_path / f"{number}.svg"
        ax.figure.savefig(path)
        assert path.stat().st_size > 1000


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="not installed: pip install matplotlib"):
        plots.bars({"a": 1})
