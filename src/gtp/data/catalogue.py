"""What data there are by name, where they come from, and where they lie on this machine."""

from __future__ import annotations

import functools
import os
from importlib import resources
from pathlib import Path
from typing import NamedTuple

MIRRORS = {
    "d4rl": (
        "http://rail.eecs.berkeley.edu/datasets/offline_rl/{path}",
        "https://huggingface.co/datasets/imone/D4RL/resolve/main/{file}",
    ),
    "ogbench": (
        "https://rail.eecs.berkeley.edu/datasets/ogbench/{file}",
        "http://rail.eecs.berkeley.edu/datasets/ogbench/{file}",
        "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main/{file}",
    ),
}
"""Addresses tried in turn; `catalogue.tsv` has each file's path, and size and SHA-256 where known."""

SHOWN = "'gtp data list' shows all there are"
"""For who asks for a name that is none."""


class Entry(NamedTuple):
    """One downloadable dataset."""

    spec: str
    path: str
    """The official file, below the official folder."""
    size: int | None
    """Bytes."""
    sha256: str | None
    can_make: bool
    """Whether `gtp data make` regenerates it."""

    @property
    def urls(self) -> list[str]:
        """The addresses to try, official first."""
        file = self.path.rpartition("/")[2]
        return [mirror.format(path=self.path, file=file) for mirror in MIRRORS[self.spec.partition(":")[0]]]


@functools.cache
def entries() -> dict[str, Entry]:
    """Every downloadable dataset, by SPEC."""
    lines = (resources.files("gtp.data") / "catalogue.tsv").read_text().splitlines()[1:]
    table = {}
    for line in lines:
        spec, path, size, sha256, make = line.split("\t")
        table[spec] = Entry(
            spec,
            path,
            None if size == "-" else int(size),
            None if sha256 == "-" else sha256,
            make == "make",
        )
    return table


def data_folder() -> Path:
    """Where data are looked for and downloaded to: $GTP_DATA, else ~/.cache/gtp/data."""
    return Path(os.environ.get("GTP_DATA") or Path.home() / ".cache" / "gtp" / "data")


SUFFIXES = {"d4rl": ".hdf5", "ogbench": ".npz", "minari": ""}
"""Of the files of each kind of name."""


def home_of(spec: str) -> Path:
    """Where a named dataset belongs: SPEC `d4rl:NAME` in d4rl/NAME.hdf5 of the data folder, and so on."""
    kind, _, name = spec.partition(":")
    return data_folder() / kind / (name + SUFFIXES[kind])


def find(spec: str) -> Path | None:
    """The file or folder that holds a named dataset; what other libraries downloaded is found too."""
    kind, _, name = spec.partition(":")
    if kind not in SUFFIXES:
        return None
    places = [home_of(spec)]
    entry = entries().get(spec)
    if entry is not None:
        file = entry.path.rpartition("/")[2]
        places += [data_folder() / kind / file, data_folder() / file]
    home = Path.home()
    if kind == "d4rl" and entry is not None:
        places.append(Path(os.environ.get("D4RL_DATASET_DIR") or home / ".d4rl" / "datasets") / file)
    if kind == "ogbench":
        places.append(home / ".ogbench" / "data" / f"{name}.npz")
    if kind == "minari":
        places.append(Path(os.environ.get("MINARI_DATASETS_PATH") or home / ".minari" / "datasets") / name)
    return next((place for place in places if place.exists()), None)


def d4rl_name(path: Path) -> str:
    """The D4RL name of an official file, or of one named alike: hopper_medium-v2 is hopper-medium-v2."""
    for entry in entries().values():
        if entry.spec.startswith("d4rl:") and entry.path.endswith("/" + path.name):
            return entry.spec.removeprefix("d4rl:")
    return path.stem.replace("_", "-")
