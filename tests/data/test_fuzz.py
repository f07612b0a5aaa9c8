"""Thousands of damaged and hostile files: a sentence comes out, or sound data; never anything else.

HDF5 files are opened in a process of their own, because a crash of the C library would take the test with it.
"""

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from data_helpers import log, write
from hostile_files import hostile_hdf5

from gtp.data import load
from gtp.errors import UserError

NPZ_COUNT, HDF5_COUNT = 1400, 1400
SIZES = [0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The same bytes with bits flipped, a piece cut out, doubled, zeroed, or overwritten, or the end gone."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.integers(6)
        at = int(rng.integers(len(data)))
        length = int(rng.integers(1, 64))
        if kind == 0:
            for place in rng.integers(len(data), size=int(rng.integers(1, 9))):
                data[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[max(at, 1) :]
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        elif kind == 4:
            data[at : at + length] = bytes(len(data[at : at + length]))
        else:
            # Numbers that are read as sizes, offsets and counts.
            data[at : at + 8] = SIZES[rng.integers(len(SIZES))].to_bytes(8, "little")
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def npy(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + body


def npz(members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def verdict(path: Path) -> str:
    """`sound` or the one sentence; anything else is an error of ours."""
    try:
        data = load(str(path))
    except UserError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        return message
    assert all(np.isfinite(array).all() for array in data.transitions)
    return "sound"


def test_mutated_npz(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "fuzz.npz"
    arrays = log() | {"timeouts": np.zeros(12, bool)}
    originals = []
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        originals.append(path.read_bytes())
    verdicts = []
    for index in range(NPZ_COUNT):
        path.write_bytes(mutated(originals[index % 2], rng))
        verdicts.append(verdict(path))
    assert verdicts.count("sound") < NPZ_COUNT / 2
    assert len(set(verdicts)) > 20


HEADERS = [
    "{'descr': '|O', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-12, -1), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (True,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 12, }",
    "{'descr': '<U999999999', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (6,), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (12,), }",
    "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (12,), }",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (12,), }",
    "{'shape': (12,), }",
    "__import__('os').system('touch pwned')",
    "[" * 900,
    "",
    "\x00" * 40,
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_absurd_npy_headers(tmp_path, header):
    arrays = {key: npy_of(value) for key, value in log().items()}
    path = tmp_path / "fuzz.npz"
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"):
        path.write_bytes(npz(arrays | {"rewards": npy(header, bytes(96), version)}))
        assert verdict(path) != "sound"
    assert not Path("pwned").exists()


def npy_of(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class Bomb:
    """What a pickle may do when it is loaded."""

    def __reduce__(self):
        return (os.system, ("touch exploded",))


def test_pickles_are_never_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = log()
    arrays["rewards"] = np.array([Bomb()] * 12, dtype=object)
    np.savez(tmp_path / "a.npz", **arrays)
    assert "not numbers" in verdict(tmp_path / "a.npz")
    assert not Path("exploded").exists()


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("gtp.data.arrays.ALWAYS_ALLOWED", 2**20)
    path = tmp_path / "bomb.npz"
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000, 300000), }"
    path.write_bytes(npz({"observations": npy(header, bytes(300_000_000))}, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    said = verdict(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "would take 300,000" in said
    assert peak < 10**7


def test_a_member_that_lies_about_its_size_is_found_out(tmp_path):
    arrays = {key: npy_of(value) for key, value in log().items()}
    whole = npz(arrays | {"rewards": npy_of(np.zeros(12))})
    size = len(npy_of(np.zeros(12))).to_bytes(4, "little")
    for other in (0, 1, 200, 2**31):
        (tmp_path / "a.npz").write_bytes(whole.replace(size, other.to_bytes(4, "little")))
        assert verdict(tmp_path / "a.npz") != "sound"


WORKER = """
import json, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_fuzz import verdict
# More than any of these files may use, less than what would hurt.
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
for line in sys.stdin:
    print(json.dumps([line.strip(), verdict(Path(line.strip()))]), flush=True)
"""


def verdicts_elsewhere(paths: list[Path]) -> dict[str, str]:
    """The verdict on each file, from one other process; it fails if that process does."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WORKER, str(Path(__file__).parent)],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    result = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"{len(result)} of {len(paths)} done, then: {done.stderr[-2000:]}"
    return result


def test_mutated_hdf5(tmp_path):
    rng = np.random.default_rng(1)
    base = log() | {"timeouts": np.zeros(12, bool)}
    originals = [Path(write(tmp_path / "plain.hdf5", base)).read_bytes()]
    with h5py.File(tmp_path / "packed.hdf5", "w", libver="latest") as file:
        for key, value in base.items():
            file.create_dataset(key, data=value, compression="gzip", chunks=(4, *value.shape[1:]))
        file.attrs["gtp_metadata"] = np.bytes_('{"physics": "d4rl"}')
    originals.append((tmp_path / "packed.hdf5").read_bytes())
    paths = [tmp_path / f"{index}.hdf5" for index in range(HDF5_COUNT)]
    for index, path in enumerate(paths):
        path.write_bytes(mutated(originals[index % 2], rng))
    verdicts = list(verdicts_elsewhere(paths).values())
    assert len(verdicts) == HDF5_COUNT
    assert len(set(verdicts)) > 20


def test_hostile_hdf5(tmp_path):
    paths = hostile_hdf5(tmp_path)
    verdicts = {Path(path).stem: text for path, text in verdicts_elsewhere(paths).items()}
    assert len(verdicts) == len(paths) == 18
    assert "sound" not in verdicts.values()
    for name in ("external_link", "soft_link", "dangling_link"):
        assert "a link to somewhere else" in verdicts[name]
    for name in ("external_storage", "virtual"):
        assert "another file" in verdicts[name]
    for name in ("strings", "ragged", "references", "compound"):
        assert "not numbers" in verdicts[name]
    for name in ("huge", "wide"):
        assert "more than the" in verdicts[name]
    for name in ("group", "empty", "cycle"):
        assert "is not an array" in verdicts[name]
