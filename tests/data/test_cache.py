"""The cache: used when nothing changed, never when anything did."""

import os

import numpy as np
import pytest
from data_helpers import log, write

from gtp.data import cache, load, own


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "SMALL", 0)
    return write(tmp_path / "log.npz", log())


@pytest.fixture
def reads(monkeypatch):
    """Counts how often the source itself is read."""
    seen = []
    real = own.read
    monkeypatch.setattr(own, "read", lambda path: (seen.append(path), real(path))[1])
    return seen


def same(one, two):
    for a, b in zip(one.transitions, two.transitions, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert (one.name, one.env, one.metadata, one.fingerprint) == (
        two.name,
        two.env,
        two.metadata,
        two.fingerprint,
    )
    np.testing.assert_array_equal(one.action_low, two.action_low)


def test_the_second_load_reads_the_cache_and_gives_the_same(source, reads):
    first = load(source)
    second = load(source)
    assert len(reads) == 1
    same(first, second)


def test_another_reward_is_another_entry(source, reads):
    np.testing.assert_array_equal(
        load(source).transitions.reward - 1, load(source, "minus_one").transitions.reward
    )
    assert len(reads) == 2
    load(source, "minus_one")
    assert len(reads) == 2


def test_a_changed_source_is_read_again_even_with_size_and_time_kept(source, reads):
    first = load(source)
    before = os.stat(source)
    arrays = log()
    arrays["rewards"] = arrays["rewards"][::-1]
    np.savez_compressed(source, **arrays)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = load(source)
    assert len(reads) == 2
    assert first.fingerprint != second.fingerprint


def test_a_damaged_entry_is_never_trusted(source, reads, tmp_path):
    first = load(source)
    [entry] = (tmp_path / "gtp-cache").iterdir()
    whole = entry.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:cut] for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1)]
    # A bit flipped inside an array, whose checksum then fails.
    for place in rng.integers(200, len(whole) - 2000, size=20):
        damaged.append(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
    for content in damaged:
        entry.write_bytes(content)
        same(first, load(source))
        count = len(reads)
        same(first, load(source))
        assert len(reads) == count, "the entry was not mended"
    assert len(reads) > 5


def test_another_format_version_is_stale(source, reads, monkeypatch):
    load(source)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    load(source)
    assert len(reads) == 2


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(source, reads, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GTP_CACHE", str(tmp_path / "file" / "below"))
    same(load(source), load(source))
    assert len(reads) == 2


def test_small_sources_are_not_cached(tmp_path, reads):
    path = write(tmp_path / "log.npz", log())
    same(load(path), load(path))
    assert len(reads) == 2
    assert not (tmp_path / "gtp-cache").exists()
