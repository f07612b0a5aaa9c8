"""Pictures: each kept once, stacked as an environment would have shown them, shifted together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import pictures, training
from gtp.envs.worlds import StackedWorlds
from gtp.errors import UserError
from gtp.types import Transition

LENGTHS = (4, 1, 3)


def numbered(values):
    """Pictures of one number each, so that what is seen can be read."""
    return np.broadcast_to(np.asarray(values, np.uint8)[:, None, None, None], (len(values), 8, 8, 1)).copy()


def episodes():
    """Three episodes showing 10, 11, …; 20, 21; 30, …: the second ends by dying, the others are cut."""
    first, after, bootstrap = [], [], []
    for i, length in enumerate(LENGTHS):
        seen = 10 * (i + 1) + np.arange(length + 1)
        first, after = [*first, *seen[:-1]], [*after, *seen[1:]]
        bootstrap += [1.0] * (length - 1) + [0.0 if i == 1 else 1.0]
    rows = len(first)
    action = np.linspace(-1, 1, rows, dtype=np.float32)[:, None]
    reward = np.arange(rows, dtype=np.float32)
    ends = np.asarray(bootstrap, np.float32)
    return Transition(numbered(first), action, reward, numbered(after), action, ends)


def test_every_picture_is_kept_once():
    film = pictures.film(episodes(), 2)
    shown = film.pictures[:, 0, 0, 0].tolist()
    assert sorted(shown) == sorted({*range(10, 15), 20, 21, *range(30, 34)})


def test_stacks_are_what_an_environment_would_have_shown():
    data = episodes()

    class Replay:
        """The first episode again, in two worlds."""

        obs_shape, action_shape = (8, 8, 1), (1,)

        def reset(self, seeds):
            self.time = 0
            return numbered([10] * len(seeds))

        def step(self, actions, active):
            self.time += 1
            nothing = np.zeros(len(actions))
            return numbered([10 + self.time] * len(actions)), nothing, nothing > 0, nothing

    worlds = StackedWorlds(Replay(), 3)
    seen = [worlds.reset([0, 1])[1, 0, 0].tolist()]
    seen += [worlds.step(np.zeros((2, 1)), np.ones(2, bool))[0][1, 0, 0].tolist() for _ in range(4)]
    assert worlds.obs_shape == (8, 8, 3)
    whole = pictures.stacked(data, 3)
    assert whole.obs.dtype == np.uint8
    assert whole.obs[:4, 0, 0].tolist() == seen[:4]
    assert whole.next_obs[:4, 0, 0].tolist() == seen[1:]
    # A new episode knows nothing of the one before, and what follows a death is not taken for it.
    assert whole.obs[4:, 0, 0].tolist() == [[20] * 3, [30] * 3, [30, 30, 31], [30, 31, 32]]
    assert whole.next_obs[4, 0, 0].tolist() == [20, 20, 21]


def test_a_batch_is_the_rows_asked_for():
    data = episodes()
    got = training.gather(training.to_device(data, 3), jnp.array([6, 0, 4]))
    want = pictures.stacked(data, 3)
    for name in Transition._fields:
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name)[[6, 0, 4]])
    assert got.obs.dtype == jnp.uint8


def test_shifts_move_both_observations_alike_by_at_most_three_pixels():
    rng = np.random.default_rng(0)
    obs = jnp.asarray(rng.integers(0, 255, (64, 12, 12, 2)), jnp.uint8)
    still = 0
    for seed in range(8):
        one, two = pictures.shift(jax.random.key(seed), obs, obs[..., ::-1])
        np.testing.assert_array_equal(one, two[..., ::-1])
        still += bool((one == obs).all())
        moves = set()
        for before, after in zip(np.asarray(obs), np.asarray(one), strict=True):
            wide = np.pad(before, ((3, 3), (3, 3), (0, 0)), mode="edge")
            found = [
                (y, x) for y in range(7) for x in range(7) if (wide[y : y + 12, x : x + 12] == after).all()
            ]
            assert len(found) == 1
            moves |= set(found)
        assert len(moves) in (1, *range(20, 50))  # No row of a batch is shifted, or each by its own.
    assert 0 < still < 8


def test_vectors_are_not_stacked():
    assert pictures.stacked_shape((11,), 1) == (11,)
    assert pictures.stacked_shape((8, 8, 3), 3) == (8, 8, 9)
    with pytest.raises(UserError, match="for pictures"):
        pictures.stacked_shape((11,), 2)
