"""The demo's pieces that take no training; `make demo` is the whole."""

import json

import numpy as np
from PIL import Image
from rich.console import Console

from gtp import demo, demo_plot
from gtp.data import toy

FIGURES = {"success": 0.9, "goals": [0.2, 0.3, 0.25, 0.15]}


def test_the_picture_is_drawn_and_small(tmp_path):
    paths = demo.paths(toy.load("multigoal").transitions)
    generative = np.random.default_rng(0).normal(size=(6, 300, 2))
    names = ["K = 1", "K = 2", "K = 5", "GTP-BC", "Gaussian BC"]
    demo_plot.draw(
        tmp_path / "demo.png",
        paths,
        dict.fromkeys(names, 1.5 * paths),
        generative,
        dict.fromkeys(names, FIGURES),
        np.linspace(2, 0, 6),
    )
    with Image.open(tmp_path / "demo.png") as picture:
        assert picture.size == (1800, 1005)
    assert (tmp_path / "demo.png").stat().st_size < 400_000


def test_paths_begin_at_the_origin_and_end_at_goals():
    paths = demo.paths(toy.load("multigoal").transitions)
    assert np.abs(paths[0]).max() < 1
    assert (demo.multigoal.reached(paths[-1]) >= 0).all()


def test_figures_are_printed_and_saved_whole(tmp_path):
    jumps = {f"K={k}": FIGURES for k in demo.JUMPS}
    figures = {"gtp": jumps, "gtp_bc": jumps, "bc": FIGURES, "seconds": 1.0}
    console = Console(width=100)
    with console.capture() as printed:
        console.print(demo.table(figures))
    assert printed.get().count("0.900") == 7
    demo.write_json(tmp_path / "figures.json", figures)
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    assert [p.name for p in tmp_path.iterdir()] == ["figures.json"]


def test_generative_trajectories_end_in_what_the_policy_does():
    import jax

    agent = demo.gtp.make(demo.GTP, 10)
    params = jax.jit(agent.init)(jax.random.key(0), toy.load("multigoal").transitions).params
    ways, levels = demo.generative_trajectories(params, demo.GTP, steps=5, samples=7)
    assert ways.shape == (6, 7, 2)
    assert levels[0] == np.float32(demo.GTP.t_max)
    assert levels[-1] == 0
    np.testing.assert_allclose(ways[0].std(), demo.GTP.t_max, rtol=0.5)
