"""Where the genuine D4RL rows are; they are no part of the repository."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

SHARED = Path(os.environ.get("GTP_SHARED", Path(__file__).parents[2] / "shared"))


def shared(*parts: str) -> Path:
    """A file of the shared data; skips the test where there is none."""
    path = SHARED.joinpath("data", *parts)
    if not path.exists():
        pytest.skip(f"The genuine data ({'/'.join(parts)}) are not beside this repository.")
    return path


def read_slice(name: str) -> dict[str, np.ndarray]:
    """All arrays of a slice, by their path in the file."""
    out: dict[str, np.ndarray] = {}

    def keep(key: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            out[key] = item[()]

    with h5py.File(shared("slices", f"{name}.hdf5")) as file:
        file.visititems(keep)
    return out
