"""Behaviour policies: small networks in npz files or in D4RL's own, evaluated with numpy."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.data.arrays import HDF5_SUFFIXES, read_arrays
from gtp.errors import UserError

MAX_BYTES = 256 * 2**20
"""Unpacked size above which a file is no behaviour policy."""
IN_D4RL = {
    f"{short}{number}": f"metadata/policy/{layer}/{part}"
    for number, layer in {"0": "fc0", "1": "fc1", "mu": "last_fc", "ls": "last_fc_log_std"}.items()
    for short, part in {"W": "weight", "b": "bias"}.items()
}
"""Where D4RL's medium files of Gym keep the SAC policy that made them."""


class Policy(NamedTuple):
    """A Gaussian policy with two hidden layers; weights are [out, in]."""

    hidden: tuple[tuple[np.ndarray, np.ndarray], ...]
    """(weight, bias) of each hidden layer."""
    mean: tuple[np.ndarray, np.ndarray]
    log_std: tuple[np.ndarray, np.ndarray]
    """(weight, bias); the weight is zero where the spread does not depend on the observation."""
    shift: np.ndarray
    scale: np.ndarray
    """The network sees (observation - shift) / scale."""
    squashed: bool
    """True: ReLU layers and tanh of the sample. False: tanh layers and the sample clipped to ±1."""

    @property
    def features(self) -> int:
        """Size of the observation it takes."""
        return self.hidden[0][0].shape[1]

    @property
    def actions(self) -> int:
        """Size of the action it gives."""
        return len(self.mean[1])


def load(path: Path) -> Policy:
    """Read a policy file of either kind; a file that is neither gets one sentence."""
    arrays = _read(path)
    squashed = "Wls" in arrays
    last = ("Wls", "bls") if squashed else ("obs_mean", "obs_std", "log_std")
    wanted = ("W0", "b0", "W1", "b1", "Wmu", "bmu", *last)
    missing = [key for key in wanted if key not in arrays]
    if missing:
        raise UserError(f"{path} is no behaviour policy: it lacks {', '.join(missing)}.")
    a = {key: arrays[key].astype(np.float32) for key in wanted}
    features, width = a["W0"].shape[-1], a["Wmu"].shape[-1]
    policy = Policy(
        hidden=((a["W0"], a["b0"]), (a["W1"], a["b1"])),
        mean=(a["Wmu"], a["bmu"]),
        log_std=(a["Wls"], a["bls"]) if squashed else (np.zeros_like(a["Wmu"]), a["log_std"]),
        shift=np.zeros(features, np.float32) if squashed else a["obs_mean"],
        scale=np.ones(features, np.float32) if squashed else a["obs_std"],
        squashed=squashed,
    )
    sizes = [features, len(a["b0"]), width, policy.actions]
    shapes = [w.shape for w, _ in policy.hidden] + [policy.mean[0].shape, policy.log_std[0].shape]
    right = [(sizes[1], sizes[0]), (sizes[2], sizes[1]), (sizes[3], sizes[2]), (sizes[3], sizes[2])]
    biases = [b.shape for _, b in (*policy.hidden, policy.mean, policy.log_std)]
    fits = shapes == right and biases == [(out,) for out, _ in right]
    if not fits or policy.shift.shape != (features,) or policy.scale.shape != (features,):
        raise UserError(f"{path} is no behaviour policy: the shapes of its layers do not fit together.")
    if not all(np.isfinite(array).all() for array in a.values()):
        raise UserError(f"{path} is no usable behaviour policy: it holds numbers that are not finite.")
    return policy


def _read(path: Path) -> dict[str, np.ndarray]:
    """The numeric arrays of a file; nothing in it is ever unpickled."""
    if path.suffix.lower() in HDF5_SUFFIXES:
        found = read_arrays(path, IN_D4RL.values())
        if not found:
            raise UserError(f"{path} holds no behaviour policy (metadata/policy).")
        return {key: found[place] for key, place in IN_D4RL.items() if place in found}
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise UserError(f"{path} is far too large for a behaviour policy.")
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise UserError(f"There is no policy file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UserError(f"{path} cannot be read as an npz file: {error}") from None
    return {key: value for key, value in arrays.items() if value.dtype.kind in "fiu"}


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def distribution(policy: Policy, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log standard deviation of the Gaussian, before any squashing, for a batch."""
    h = (obs - policy.shift) / policy.scale
    for weight, bias in policy.hidden:
        h = h @ weight.T + bias
        h = np.maximum(h, 0) if policy.squashed else np.tanh(h)
    mean = h @ policy.mean[0].T + policy.mean[1]
    log_std = h @ policy.log_std[0].T + policy.log_std[1]
    return mean, np.clip(log_std, -20, 2)


def sample(policy: Policy, obs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Actions and their log-probabilities for a batch, from standard normal noise of the actions' shape."""
    mean, log_std = distribution(policy, obs)
    raw = mean + np.exp(log_std) * noise
    action = np.tanh(raw) if policy.squashed else np.clip(raw, -1, 1)
    return action, log_prob(policy, mean, log_std, raw, action)


def log_prob(
    policy: Policy, mean: np.ndarray, log_std: np.ndarray, raw: np.ndarray, action: np.ndarray
) -> np.ndarray:
    """Log-density of the sample, with the 1e-6 that D4RL's policies had inside the logarithm."""
    normal = -0.5 * np.square((raw - mean) / np.exp(log_std)) - log_std - 0.5 * np.log(2 * np.pi)
    squash = np.log(1 - np.square(action) + 1e-6) if policy.squashed else 0.0
    return (normal - squash).sum(-1)
