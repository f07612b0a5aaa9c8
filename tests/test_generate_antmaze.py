"""How AntMaze data are collected, against the genuine slices."""

from collections import deque

import numpy as np
import pytest

from gtp.envs.antmaze import cells, centre
from gtp.generate import antmaze
from gtp.generate import policy as policies
from slices import read_slice, shared

pytest.importorskip("mujoco")


@pytest.mark.parametrize("name", antmaze.RECIPES)
def test_recipe_fits_the_genuine_episodes(name):
    """Length, goals and starts of the slices are what the recipe would have made."""
    rows, recipe = read_slice(f"antmaze-{name}-v0"), antmaze.RECIPES[name]
    starts = np.flatnonzero(np.append(True, (np.diff(rows["infos/goal"], axis=0) != 0).any(1)))
    if len(starts) > 1:
        assert np.diff(starts)[0] == recipe.rows
    for i in starts:
        assert antmaze.cell_of(rows["infos/goal"][i]) in recipe.goals
        xy = rows["observations"][i, :2]
        if recipe.many_starts:
            free = [cell for cell in cells(recipe.maze, "0RG") if cell not in recipe.goals]
            offsets = [xy - centre(cell) for cell in free]
            assert any((o >= -1e-6).all() and (o <= 1).all() for o in offsets)
        else:
            assert np.abs(xy).max() <= 0.1


def test_errands_spread_as_the_genuine_goals_do():
    """Offsets from the cells' centres, 22 genuine ones against many drawn."""
    genuine = []
    for name, recipe in antmaze.RECIPES.items():
        for goal in np.unique(read_slice(f"antmaze-{name}-v0")["infos/goal"], axis=0):
            (cell,) = {antmaze.cell_of(goal)} & set(recipe.goals)
            genuine += list(goal - centre(cell))
    assert len(genuine) == 22
    rng = np.random.default_rng(0)
    drawn = np.concatenate([antmaze.draw_errand(rng, (3, 1)) - centre((3, 1)) for _ in range(5000)])
    at = np.sort(genuine)
    below = np.searchsorted(np.sort(drawn), at) / len(drawn)
    steps = np.arange(23) / 22
    distance = max((steps[1:] - below).max(), (below - steps[:-1]).max())
    # Kolmogorov and Smirnov's limit for 22 values, at 1 %; goals of an evaluation are 0.76 away.
    assert distance < 0.337


@pytest.mark.parametrize("maze", ["umaze", "medium", "large"])
def test_planner_takes_a_shortest_way_from_every_cell(maze):
    free = set(cells(maze, "0RG"))
    for goal in free:
        distance, queue = {goal: 0}, deque([goal])
        while queue:
            row, column = here = queue.popleft()
            for there in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if there in free and there not in distance:
                    distance[there] = distance[here] + 1
                    queue.append(there)
        for cell in free - {goal}:
            following = antmaze.next_cell(maze, centre(cell) + 0.5, centre(goal) + 0.5)
            assert distance[following] == distance[cell] - 1
        assert antmaze.next_cell(maze, centre(goal) + 0.5, centre(goal) + 0.5) == goal


@pytest.mark.parametrize("maze", ["medium", "large"])
def test_play_and_diverse_are_drawn_apart(maze):
    """One recipe, as in D4RL, but not the same rows: neither starts, goals nor the evaluation goal."""
    play, diverse = (antmaze.RECIPES[f"{maze}-{kind}"] for kind in ("play", "diverse"))
    assert play == diverse._replace(stream=play.stream)
    goals = [antmaze.evaluation_goal(f"{maze}-{kind}", 0) for kind in ("play", "diverse")]
    assert (goals[0] != goals[1]).all()
    policy = str(shared("policies", "d4rl_official_antmaze_goalreach.npz"))
    short = {
        f"{maze}-{kind}": antmaze.RECIPES[f"{maze}-{kind}"]._replace(rows=2) for kind in ("play", "diverse")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(antmaze, "RECIPES", short)
        made = [antmaze.shard(name, policy, 4, 0, 0) for name in short]
    assert (made[0]["infos/goal"] != made[1]["infos/goal"]).all()
    assert (made[0]["observations"] != made[1]["observations"]).mean() > 0.9


def test_made_rows_look_like_the_genuine_ones(capsys):
    genuine = read_slice("antmaze-umaze-v0")
    policy = shared("policies", "d4rl_official_antmaze_goalreach.npz")
    made = antmaze.shard("umaze", str(policy), 4, 0, 0)
    again = antmaze.shard("umaze", str(policy), 4, 0, 0)
    assert made.keys() == genuine.keys()
    for key, value in made.items():
        np.testing.assert_array_equal(value, again[key])
        assert value.shape[1:] == genuine[key].shape[1:]
        assert len(value) == 4 * 701
    np.testing.assert_array_equal(np.flatnonzero(made["timeouts"]), 701 * np.arange(1, 5) - 1)
    follows = ~made["timeouts"][:-1]
    np.testing.assert_array_equal(made["observations"][1:, :15][follows], made["infos/qpos"][:-1][follows])
    goal = antmaze.evaluation_goal("umaze", 0)
    near = np.linalg.norm(made["infos/qpos"][:, :2] - goal, axis=1) <= 0.5
    np.testing.assert_array_equal(made["terminals"], near)
    np.testing.assert_array_equal(made["rewards"], near)

    def correlation(rows):
        """Of the logged actions with the policy's means where the goal itself is next and the ant upright."""
        obs, goals = rows["observations"], rows["infos/goal"]
        upright = 1 - 2 * (obs[:, 4] ** 2 + obs[:, 5] ** 2) > 0.5
        last = [
            antmaze.next_cell("umaze", o, g) == antmaze.cell_of(g) for o, g in zip(obs, goals, strict=True)
        ]
        obs, goals, action = (a[upright & np.array(last)] for a in (obs, goals, rows["actions"]))
        towards = goals - obs[:, :2]
        towards *= 10 / np.linalg.norm(towards, axis=1, keepdims=True)
        mean, _ = policies.distribution(actor, np.concatenate([obs[:, 2:], towards], axis=1))
        return np.corrcoef(action.ravel(), np.tanh(mean).ravel())[0, 1]

    actor = policies.load(policy)
    limits = [(np.abs(rows["actions"]) == 1).mean() for rows in (genuine, made)]
    figures = [correlation(rows) for rows in (genuine, made)]
    with capsys.disabled():
        print(
            f"\nantmaze-umaze, genuine and made: actions at the limit {limits[0]:.3f} and {limits[1]:.3f},"
            f" correlation with the policy {figures[0]:.2f} and {figures[1]:.2f}"
        )
    assert abs(limits[0] - limits[1]) < 0.04
    # The policy at hand is near the one that made the genuine rows, not exactly it.
    assert figures[0] > 0.8
    assert figures[1] > 0.95
