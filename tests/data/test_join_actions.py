"""Several actions as one, against windows written out."""

import numpy as np
import pytest

from gtp.data.dataset import Rows, join_actions, look_ahead, qlearning, transitions
from gtp.errors import UserError
from gtp.types import Transition

LENGTHS = [4, 1, 6]


@pytest.fixture(params=[True, False], ids=["ends", "time-outs"])
def t(request) -> Transition:
    """Three episodes of actions in two dimensions, all different, that end truly or by time-out."""
    count = sum(LENGTHS)
    ends = np.zeros(count, bool)
    ends[np.cumsum(LENGTHS) - 1] = True
    obs = np.concatenate([np.arange(n) + 100.0 * i for i, n in enumerate(LENGTHS)])[:, None]
    rows = Rows(
        observations=obs.astype(np.float32),
        actions=np.arange(2 * count, dtype=np.float32).reshape(-1, 2) / 100,
        rewards=np.ones(count, np.float32),
        terminals=ends & request.param,
        timeouts=ends & (not request.param),
        next_observations=(obs + 1).astype(np.float32),
    )
    return transitions(rows)


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_an_action_is_joined_with_those_after_it_in_its_episode(t, count):
    seen = join_actions(t, count)
    first = 0
    for length in LENGTHS:
        episode = t.action[first : first + length]
        windows = [
            np.concatenate([episode[min(i + k, length - 1)] for k in range(count)]) for i in range(length)
        ]
        np.testing.assert_array_equal(seen.action[first : first + length], windows)
        following = [*windows[1:], windows[-1]]
        np.testing.assert_array_equal(seen.next_action[first : first + length], following)
        first += length
    assert seen.action.dtype == np.float32
    for name in ("obs", "reward", "next_obs", "bootstrap"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(t, name))


def test_what_follows_a_chunk_is_the_chunk_that_begins_where_it_ended(t):
    """Three steps ahead of row 5, in the long episode, are row 8's observation and row 8's chunk."""
    joined = join_actions(t, 3)
    seen = look_ahead(joined, 3, 0.9)
    np.testing.assert_array_equal(seen.next_obs[5], t.obs[8])
    np.testing.assert_array_equal(seen.next_action[5], joined.action[8])
    np.testing.assert_allclose(seen.reward[5], 1 + 0.9 + 0.81, rtol=1e-6)


def test_the_action_after_a_cut_is_known_and_used():
    """D4RL's rule drops the row of a time-out, but the row before it remembers what was done there."""
    count = sum(LENGTHS)
    ends = np.zeros(count, bool)
    ends[np.cumsum(LENGTHS) - 1] = True
    actions = np.arange(count, dtype=np.float32)[:, None] / 10
    obs = np.arange(count, dtype=np.float32)[:, None]
    t = qlearning(Rows(obs, actions, np.ones(count, np.float32), np.zeros(count, bool), ends))
    for mine, expected in zip(join_actions(t, 1), t, strict=True):
        np.testing.assert_array_equal(mine, expected)
    seen = join_actions(t, 3)
    # Episodes of 4, 1 and 6 rows become 3, none and 5 transitions, the last of which begin at rows 2 and 9.
    np.testing.assert_allclose(seen.action[:3] * 10, [[0, 1, 2], [1, 2, 3], [2, 3, 3]])
    np.testing.assert_allclose(seen.next_action[:3] * 10, [[1, 2, 3], [2, 3, 3], [3, 3, 3]])
    np.testing.assert_allclose(
        seen.action[3:] * 10, [[5, 6, 7], [6, 7, 8], [7, 8, 9], [8, 9, 10], [9, 10, 10]]
    )


def test_more_actions_than_any_episode_has_are_refused(t):
    with pytest.raises(
        UserError, match="7 actions cannot be learned as one: the longest episode has 6 transitions"
    ):
        join_actions(t, 7)
