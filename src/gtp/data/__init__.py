"""Data by name: `load` turns one SPEC string into transitions. Numpy and h5py only, no simulator."""

from __future__ import annotations

from pathlib import Path

from gtp.data import own
from gtp.data.dataset import Dataset, action_range, fingerprint, scale_actions, transitions
from gtp.errors import UserError

__all__ = ["load"]


def load(spec: str, reward: str = "none") -> Dataset:
    """The dataset a SPEC names.

    Args:
        spec: `toy:NAME`, or a path to an `.npz` or HDF5 file of your own.
        reward: name of the reward transform.

    Raises:
        UserError: where there is no such data, or they are not sound.
    """
    if spec.startswith("toy:"):
        from gtp.data import toy

        return toy.load(spec.removeprefix("toy:"))
    path = Path(spec)
    if path.suffix.lower() not in (".npz", ".hdf5", ".h5"):
        raise UserError(f"'{spec}' names no data: give toy:NAME or a path ending in .npz or .hdf5.")
    t = transitions(own.read(path))
    low, high = action_range(t.action)
    t = scale_actions(t, low, high)
    return Dataset(spec, t, low, high, fingerprint=fingerprint(t))
