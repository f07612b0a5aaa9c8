"""n-step returns, against sums written out and a chain whose values are known."""

import numpy as np
import pytest

from gtp.data.dataset import Rows, look_ahead, transitions
from gtp.types import Transition

DISCOUNT = 0.9


def chain(lengths: list[int], terminal: bool) -> Transition:
    """Episodes along the numbers, one step each, with rewards 1, 2, 3, …; they end truly or by time-out."""
    count = sum(lengths)
    ends = np.zeros(count, bool)
    ends[np.cumsum(lengths) - 1] = True
    obs = np.concatenate([np.arange(n) + 100.0 * i for i, n in enumerate(lengths)])[:, None]
    rows = Rows(
        observations=obs.astype(np.float32),
        actions=obs.astype(np.float32) / 1000,
        rewards=np.arange(1, count + 1, dtype=np.float32),
        terminals=ends & terminal,
        timeouts=ends & (not terminal),
        next_observations=(obs + 1).astype(np.float32),
    )
    return transitions(rows)


def by_hand(t: Transition, episode: np.ndarray, steps: int) -> list[tuple[float, int]]:
    """The discounted rewards of each row, added one by one, and the last row they are from."""
    found = []
    for i in range(len(t.reward)):
        window = [j for j in range(i, min(i + steps, len(t.reward))) if episode[j] == episode[i]]
        found.append((sum(DISCOUNT ** (j - i) * float(t.reward[j]) for j in window), window[-1]))
    return found


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_rewards_are_added_within_an_episode(steps, terminal):
    lengths = [4, 1, 6]
    t = chain(lengths, terminal)
    episode = np.repeat(np.arange(3), lengths)
    seen = look_ahead(t, steps, DISCOUNT)
    reward, last = zip(*by_hand(t, episode, steps), strict=True)
    np.testing.assert_allclose(seen.reward, reward, rtol=1e-6)
    np.testing.assert_array_equal(seen.next_obs, t.next_obs[list(last)])
    np.testing.assert_array_equal(seen.next_action, t.next_action[list(last)])
    between = DISCOUNT ** (np.array(last) - np.arange(len(last)))
    np.testing.assert_allclose(seen.bootstrap, t.bootstrap[list(last)] * between, rtol=1e-6)
    np.testing.assert_array_equal(seen.obs, t.obs)
    np.testing.assert_array_equal(seen.action, t.action)
    assert seen.reward.dtype == seen.bootstrap.dtype == np.float32


def test_one_step_is_the_data_as_they_are():
    t = chain([5, 3], terminal=True)
    for before, after in zip(t, look_ahead(t, 1, DISCOUNT), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_true_value_solves_every_n_step_equation(steps):
    """In a chain of n steps with reward -1, V(i) = -(1 - γ^(n - i))/(1 - γ), however far one looks."""
    n = 6
    t = chain([n], terminal=True)._replace(reward=np.full(n, -1.0, np.float32))
    value = lambda obs: -(1 - DISCOUNT ** (n - obs[:, 0])) / (1 - DISCOUNT)  # noqa: E731
    seen = look_ahead(t, steps, DISCOUNT)
    target = seen.reward + DISCOUNT * seen.bootstrap * value(seen.next_obs)
    np.testing.assert_allclose(target, value(t.obs), rtol=1e-5)
