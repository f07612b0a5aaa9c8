"""What the tests of the data share: where the genuine files are, and a small log of our own."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

SHARED = Path(os.environ.get("GTP_SHARED") or Path(__file__).parents[3] / "shared")
SLICES = sorted((SHARED / "data" / "slices").glob("*.hdf5")) + sorted(
    (SHARED / "data" / "kitchen").glob("*.hdf5")
)
needs_slices = pytest.mark.skipif(not SLICES, reason="The genuine D4RL slices are not beside the repository.")
# Without slices, one stand-in that is skipped with the sentence above.
every_slice = pytest.mark.parametrize("path", SLICES or [Path("none")], ids=lambda path: path.stem)


def genuine(stem: str) -> Path:
    return next(path for path in SLICES if path.stem == stem)


def log(count: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(count, 3)),
        "actions": rng.uniform(-2, 2, size=(count, 2)),
        "rewards": rng.normal(size=count),
        "terminals": np.arange(count) % 4 == 3,
    }


def write(path: Path, arrays: dict[str, np.ndarray]) -> str:
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value
    return str(path)
