"""Behaviour policies against the log-probabilities D4RL logged."""

import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from gtp.errors import UserError
from gtp.generate import policy as policies
from slices import read_slice, shared


@pytest.mark.parametrize("task", ["hopper", "walker2d", "halfcheetah", "ant"])
def test_log_probabilities_are_those_of_the_genuine_rows(task, capsys):
    policy = policies.load(shared("policies", f"d4rl_official_medium-v2_{task}.npz"))
    rows = read_slice(f"{task}_medium-v2")
    mean, log_std = policies.distribution(policy, rows["observations"])
    inside = (np.abs(rows["actions"]) < 0.999).all(1)  # Nearer to ±1 the squash cannot be undone in float32.
    raw = np.arctanh(np.where(inside[:, None], rows["actions"], 0).astype(np.float64))
    ours = policies.log_prob(policy, mean, log_std, raw, rows["actions"])
    error = np.abs(ours - rows["infos/action_log_probs"])[inside]
    with capsys.disabled():
        print(f"\n{task}: {inside.sum()} log-probabilities, median error {np.median(error):.1e}")
    assert inside.sum() > 100
    assert np.median(error) < 1e-4
    assert np.quantile(error, 0.99) < 2e-2


def test_samples_have_the_mean_and_spread_of_the_network():
    policy = random_policy(squashed=False)
    obs = np.repeat(np.ones((1, 5), np.float32), 20000, axis=0)
    noise = np.random.default_rng(0).standard_normal((20000, 2)).astype(np.float32)
    action, log_prob = policies.sample(policy, obs, noise)
    h = (obs[0] - policy.shift) / policy.scale
    for weight, bias in policy.hidden:
        h = np.tanh(weight @ h + bias)
    mean, std = policy.mean[0] @ h + policy.mean[1], np.exp(policy.log_std[1])
    np.testing.assert_allclose(action.mean(0), mean, atol=0.01)
    np.testing.assert_allclose(action.std(0), std, rtol=0.03)
    expected = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_prob, expected.sum(1), atol=1e-4)


def test_squashed_samples_stay_inside():
    policy = random_policy(squashed=True)
    noise = 50 * np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
    action, log_prob = policies.sample(policy, np.ones((100, 5), np.float32), noise)
    assert (np.abs(action) <= 1).all()
    assert np.isfinite(log_prob).all()


def random_arrays(squashed: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {"W0": (7, 5), "b0": (7,), "W1": (7, 7), "b1": (7,), "Wmu": (2, 7), "bmu": (2,)}
    last = {"Wls": (2, 7), "bls": (2,)} if squashed else {"log_std": (2,), "obs_mean": (5,), "obs_std": (5,)}
    arrays = {
        key: (0.3 * rng.standard_normal(shape)).astype(np.float32) for key, shape in (shapes | last).items()
    }
    if not squashed:
        arrays["obs_std"] = np.abs(arrays["obs_std"]) + 0.5
        arrays["log_std"] = np.array([-3, -2.5], np.float32)
    return arrays


def random_policy(squashed: bool) -> policies.Policy:
    with tempfile.TemporaryDirectory() as folder:
        np.savez(path := Path(folder) / "policy.npz", **random_arrays(squashed))
        return policies.load(path)


@pytest.mark.parametrize("squashed", [True, False])
def test_every_missing_or_misshapen_array_is_named_in_one_sentence(tmp_path, squashed):
    good = random_arrays(squashed)
    for key in good:
        for fault in ("missing", "shape", "nan", "text"):
            arrays = dict(good)
            if fault == "missing":
                del arrays[key]
            elif fault == "shape":
                arrays[key] = np.concatenate([arrays[key], arrays[key]])
            elif fault == "nan":
                arrays[key] = np.full_like(arrays[key], np.nan)
            else:
                arrays[key] = np.array("hello")
            np.savez(tmp_path / "p.npz", **arrays)
            with pytest.raises(UserError):
                policies.load(tmp_path / "p.npz")


def test_broken_and_hostile_files_are_refused(tmp_path):
    good = tmp_path / "good.npz"
    np.savez(good, **random_arrays(True))
    whole = good.read_bytes()
    bad = tmp_path / "bad.npz"
    for content in (b"", b"not a zip", whole[: len(whole) // 2], whole[:-10]):
        bad.write_bytes(content)
        with pytest.raises(UserError):
            policies.load(bad)
    np.savez(bad, W0=np.array([{"never": "unpickled"}], dtype=object))
    with pytest.raises(UserError):
        policies.load(bad)
    with pytest.raises(UserError, match="no policy file"):
        policies.load(tmp_path / "absent.npz")


def d4rl_file(path, arrays):
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[policies.IN_D4RL[key]] = array
        file["metadata/policy/nonlinearity"] = b"relu"
    return path


def test_a_policy_is_read_out_of_a_d4rl_file(tmp_path):
    arrays = random_arrays(True)
    read = policies.load(d4rl_file(tmp_path / "a.hdf5", arrays))
    np.savez(tmp_path / "a.npz", **arrays)
    obs = np.random.default_rng(0).normal(size=(5, read.features)).astype(np.float32)
    same = policies.load(tmp_path / "a.npz")
    for one, other in zip(policies.distribution(read, obs), policies.distribution(same, obs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("task", ["hopper", "walker2d", "halfcheetah", "ant"])
def test_the_genuine_files_carry_the_policies_behind_them(task):
    read = policies.load(shared("slices", f"{task}_medium-v2.hdf5"))
    same = policies.load(shared("policies", f"d4rl_official_medium-v2_{task}.npz"))
    for one, other in zip((*read.hidden, read.mean), (*same.hidden, same.mean), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_d4rl_files_without_a_policy_or_with_half_of_one_are_refused(tmp_path):
    with h5py.File(tmp_path / "rows.hdf5", "w") as file:
        file["observations"] = np.zeros((3, 2))
    with pytest.raises(UserError, match="holds no behaviour policy"):
        policies.load(tmp_path / "rows.hdf5")
    arrays = random_arrays(True)
    del arrays["b1"]
    with pytest.raises(UserError, match="it lacks b1"):
        policies.load(d4rl_file(tmp_path / "half.hdf5", arrays))
    with pytest.raises(UserError, match="no such file"):
        policies.load(tmp_path / "absent.hdf5")
