"""The multi-goal demonstrations as files, in numbers or in pictures."""

from __future__ import annotations

import numpy as np

EPISODES = 50
"""Of a shard."""


def shard(pixels: bool, seed: int, index: int) -> dict[str, np.ndarray]:
    """Whole episodes of the wandering demonstrator."""
    from gtp.data.toy import multigoal_rows
    from gtp.envs.pixels import draw

    stream = int(np.random.SeedSequence((seed, index)).generate_state(1)[0])
    rows = multigoal_rows(EPISODES, stream)._asdict()
    arrays = {key: value for key, value in rows.items() if value is not None}
    if pixels:
        del arrays[
            "next_observations"
        ]  # Each is the next row's picture; only those of cut episodes are lost.
        arrays["observations"] = draw(arrays["observations"])
    return arrays
