"""HDF5 files that are whole but ask for what they should not get."""

from pathlib import Path

import h5py
import numpy as np
from data_helpers import log, write


def hostile_hdf5(folder: Path) -> list[Path]:
    """Files that are whole but ask for what they should not get."""
    secret = write(folder / "secret.hdf5", log())

    def external_link(file):
        del file["observations"]
        file["observations"] = h5py.ExternalLink(secret, "/observations")

    def soft_link(file):
        del file["rewards"]
        file["rewards"] = h5py.SoftLink("/actions")

    def dangling_link(file):
        del file["terminals"]
        file["terminals"] = h5py.SoftLink("/nowhere")

    def external_storage(file):
        del file["rewards"]
        file.create_dataset("rewards", shape=(12,), dtype="f8", external=[(secret, 0, 96)])

    def virtual(file):
        del file["rewards"]
        layout = h5py.VirtualLayout((12,), "f8")
        layout[:] = h5py.VirtualSource(secret, "rewards", (12,))
        file.create_virtual_dataset("rewards", layout)

    def strings(file):
        del file["rewards"]
        file.create_dataset("rewards", data=["x"] * 12, dtype=h5py.string_dtype())

    def ragged(file):
        del file["rewards"]
        file.create_dataset("rewards", shape=(12,), dtype=h5py.vlen_dtype(np.float64))

    def references(file):
        del file["rewards"]
        file.create_dataset("rewards", shape=(12,), dtype=h5py.ref_dtype)

    def compound(file):
        del file["rewards"]
        file["rewards"] = np.zeros(12, [("a", "f8"), ("b", "i4")])

    def huge(file):
        del file["observations"]
        file.create_dataset("observations", shape=(2**40, 2**20), dtype="f8", chunks=(1, 1024))

    def wide(file):
        del file["observations"]
        file.create_dataset(
            "observations", shape=(12, 2**33), dtype="f4", chunks=(1, 1024), compression="gzip"
        )

    def group(file):
        del file["rewards"]
        file.create_group("rewards")

    def empty(file):
        del file["rewards"]
        file["rewards"] = h5py.Empty("f8")

    def scalar(file):
        del file["rewards"]
        file["rewards"] = 1.0

    def cycle(file):
        del file["rewards"]
        file["rewards"] = file["/"]

    def bad_metadata(file):
        file.attrs["gtp_metadata"] = np.bytes_("[" * 60_000)

    def heap_metadata(file):
        file.attrs["gtp_metadata"] = "{}"

    def odd_metadata(file):
        file.attrs["gtp_metadata"] = np.arange(4)

    paths = []
    for change in [value for value in locals().values() if callable(value)]:
        paths.append(Path(write(folder / f"{change.__name__}.hdf5", log())))
        with h5py.File(paths[-1], "a") as file:
            change(file)
    return paths
