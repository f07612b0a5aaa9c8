"""Official files over HTTP: resumed where they broke off, verified, put in place only when whole."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py

from gtp.data import catalogue
from gtp.data.arrays import HDF5_SUFFIXES, brief
from gtp.errors import UserError, did_you_mean

CHUNK = 2**20
ATTEMPTS = 3
"""How often a broken connection to one address is taken up again."""
TIMEOUT = 30.0
"""Seconds without an answer after which an address counts as silent."""

Report = Callable[[int, int | None], None]
"""Called with the bytes that are there and the bytes there will be, where known."""


class NotWhole(Exception):
    """An address did not give the file; the next one is tried."""


def get(spec: str, report: Report) -> tuple[Path, bool]:
    """Download a named dataset into the data folder, unless it is on this machine already.

    Returns:
        Where it is, and whether its SHA-256 is known and was compared.

    Raises:
        UserError: where there is no such name, no network or no room.
    """
    entry = catalogue.entries().get(spec)
    if entry is None:
        meant = did_you_mean(spec, catalogue.entries(), catalogue.SHOWN)
        raise UserError(f"{spec} is none of the datasets that can be downloaded{meant}")
    present = catalogue.find(spec)
    if present is not None:
        return present, False
    target = catalogue.home_of(spec)
    try:
        download(entry.urls, target, entry.size, entry.sha256, report)
    except NotWhole as error:
        make = f"'gtp data make {spec}' regenerates it without a network, or " if entry.can_make else ""
        raise UserError(
            f"{spec} could not be downloaded ({error}): {make}put the file at {target} yourself."
        ) from error
    return target, entry.sha256 is not None


def download(urls: list[str], target: Path, size: int | None, sha256: str | None, report: Report) -> None:
    """Bring a file to `target` from the first address that gives it whole.

    Raises:
        NotWhole: where none does; what each one did is in the text.
        UserError: where there is no room or no permission.
    """
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in urls:
            # Without a checksum, parts of two addresses must never be put together.
            mark = "" if sha256 else "." + hashlib.sha256(url.encode()).hexdigest()[:8]
            part = target.with_name(f"{target.name}{mark}.part")
            try:
                _fetch(url, part, size, report)
                _verify(part, target.suffix.lower(), size, sha256)
            except NotWhole as error:
                failures.append(f"{urllib.parse.urlsplit(url).netloc}: {error}")
                continue
            os.replace(part, target)
            return
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(
                f"{target.parent}: the disk is full; make room, and the same command goes on from there."
            ) from error
        raise UserError(f"{target}: cannot be written ({brief(error)}).") from error
    raise NotWhole("; ".join(failures))


def _fetch(url: str, part: Path, size: int | None, report: Report) -> None:
    for attempt in range(ATTEMPTS):
        try:
            if _fetch_once(url, part, size, report):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and attempt == 0:
                # What is here is longer than the file there, so it is not the beginning of it.
                part.unlink(missing_ok=True)
                continue
            raise NotWhole(f"HTTP {error.code}") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if attempt == ATTEMPTS - 1 or not part.exists():
                raise NotWhole(brief(getattr(error, "reason", error))) from error
    raise NotWhole("the connection broke off every time")


def _fetch_once(url: str, part: Path, size: int | None, report: Report) -> bool:
    """Append what is still missing; True when nothing is."""
    have = part.stat().st_size if part.exists() else 0
    if size is not None and have > size:
        part.unlink()
        have = 0
    if size is not None and have == size:
        return True
    request = urllib.request.Request(
        url, headers={"User-Agent": "gtp"} | ({"Range": f"bytes={have}-"} if have else {})
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        resumed = response.status == 206 and (response.headers.get("Content-Range") or "").startswith(
            f"bytes {have}-"
        )
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else size
        if total is not None and shutil.disk_usage(part.parent).free < total - have:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with part.open("ab" if resumed else "wb") as file:
            report(have, total)
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                report(have, total)
    return total is None or have >= total


def _verify(part: Path, suffix: str, size: int | None, sha256: str | None) -> None:
    """Raise NotWhole, and drop the file, unless it is what was asked for."""
    fault = None
    if size is not None and part.stat().st_size != size:
        fault = f"{part.stat().st_size:,} bytes came, not {size:,}"
    elif sha256 is not None:
        with part.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                fault = "the SHA-256 is not that of the official file"
    elif not _opens(part, suffix):
        fault = "what came is not a data file"
    if fault is not None:
        part.unlink()
        raise NotWhole(fault)


def _opens(part: Path, suffix: str) -> bool:
    try:
        if suffix in HDF5_SUFFIXES:
            with h5py.File(part, "r") as file:
                return "observations" in file
        with zipfile.ZipFile(part) as archive:
            return "observations.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
