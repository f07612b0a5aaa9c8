"""`get` against a server of our own that breaks off, lies, refuses, and runs the disk full."""

import errno
import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from data_helpers import log, write

from gtp.cli import main
from gtp.data import catalogue, download, load
from gtp.errors import UserError


class Server:
    """Serves one file under any name; `cuts` says after how many bytes each answer in turn breaks off."""

    def __init__(self, content: bytes):
        self.content, self.cuts, self.status, self.ranges = content, [], 200, True
        self.requests: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.headers.get("Range"))
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/file"

    def answer(self, handler):
        if self.status != 200:
            handler.send_error(self.status)
            return
        asked = handler.headers.get("Range") if self.ranges else None
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if start >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[start:]
        handler.send_response(206 if asked else 200)
        if asked:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        cut = self.cuts.pop(0) if self.cuts else len(body)
        handler.wfile.write(body[:cut])

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def content(tmp_path):
    rng = np.random.default_rng(0)
    arrays = log() | {"observations": rng.normal(size=(12, 3000)).astype(np.float32)}
    return Path(write(tmp_path / "made.hdf5", arrays)).read_bytes()


@pytest.fixture
def server(content, monkeypatch):
    # A proxy of this machine has no business with a server on this machine.
    monkeypatch.setenv("no_proxy", "*")
    made = Server(content)
    yield made
    made.close()


@pytest.fixture
def second(content):
    made = Server(content)
    yield made
    made.close()


def quiet(done, total):
    pass


def fetch(urls, target, content, known=True, size=True):
    sha256 = hashlib.sha256(content).hexdigest() if known else None
    download.download(urls, target, len(content) if size else None, sha256, quiet)


def files(target):
    return sorted(path.name for path in target.parent.iterdir())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "down" / "set.hdf5"


@pytest.mark.parametrize("known", [True, False])
def test_a_cut_connection_is_taken_up_where_it_broke(server, content, target, known):
    server.cuts = [1000, 50_000]
    fetch([server.url], target, content, known)
    assert target.read_bytes() == content
    assert server.requests == [None, "bytes=1000-", "bytes=51000-"]
    assert files(target) == ["set.hdf5"]


def test_a_part_left_by_an_earlier_run_is_gone_on_with_and_never_taken_for_whole(server, content, target):
    server.cuts = [1000, 0, 0]
    with pytest.raises(download.NotWhole, match="broke off"):
        fetch([server.url], target, content)
    assert files(target) == ["set.hdf5.part"]
    fetch([server.url], target, content)
    assert server.requests[-1] == "bytes=1000-"
    assert target.read_bytes() == content


def test_without_a_length_known_beforehand_a_cut_is_seen_all_the_same(server, content, target):
    server.cuts = [1000, 0, 0]
    with pytest.raises(download.NotWhole, match="broke off"):
        fetch([server.url], target, content, known=False, size=False)
    assert not target.exists()


def test_a_server_without_ranges_starts_over(server, content, target):
    server.ranges = False
    server.cuts = [1000]
    fetch([server.url], target, content)
    assert target.read_bytes() == content


def test_a_part_that_is_too_long_is_dropped(server, content, target):
    target.parent.mkdir()
    target.with_name("set.hdf5.part").write_bytes(content + b"more")
    fetch([server.url], target, content)
    assert target.read_bytes() == content


def test_a_part_longer_than_the_file_is_started_over_though_no_size_is_known(server, content, target):
    server.cuts = [1000, 0, 0]
    with pytest.raises(download.NotWhole):
        fetch([server.url], target, content, known=False, size=False)
    [part] = target.parent.iterdir()
    part.write_bytes(content + b"more")
    fetch([server.url], target, content, known=False, size=False)
    assert server.requests[-2:] == [f"bytes={len(content) + 4}-", None]
    assert target.read_bytes() == content


def test_a_wrong_checksum_is_never_put_in_place_and_the_mirror_is_tried(server, second, content, target):
    second.content = content[:-1] + bytes([content[-1] ^ 1])
    fetch([second.url, server.url], target, content)
    assert target.read_bytes() == content
    with pytest.raises(download.NotWhole, match="SHA-256 is not that of the official file"):
        fetch([second.url], target.with_name("other.hdf5"), content)
    assert files(target) == ["set.hdf5"]


def test_a_page_of_text_is_no_dataset_though_no_checksum_is_known(server, content, target):
    server.content = b"<html>moved</html>"
    with pytest.raises(download.NotWhole, match="not a data file"):
        fetch([server.url], target, content, known=False, size=False)
    assert files(target) == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_moves_on_to_the_mirror(server, second, content, target, status):
    second.status = status
    fetch([second.url, server.url], target, content)
    assert target.read_bytes() == content


def test_parts_of_two_addresses_are_joined_only_under_a_checksum(server, second, content, target):
    second.cuts = [1000, 0, 0]
    fetch([second.url, server.url], target, content, known=True)
    assert server.requests == ["bytes=1000-"]
    target.unlink()
    second.cuts, server.requests = [1000, 0, 0], []
    fetch([second.url, server.url], target, content, known=False)
    assert server.requests == [None]


def test_a_full_disk_is_one_sentence_and_the_part_stays(server, content, target, monkeypatch):
    real = Path.open

    class Full:
        """A file on a disk with room for 3000 bytes more."""

        def __init__(self, file):
            self.file, self.room = file, 3000

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, chunk):
            self.file.write(chunk[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", lambda self, mode="r": Full(real(self, mode)))
    with pytest.raises(UserError, match="the disk is full") as caught:
        fetch([server.url], target, content)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(Path, "open", real)
    assert files(target) == ["set.hdf5.part"]
    fetch([server.url], target, content)
    assert server.requests[-1] == "bytes=3000-"
    assert target.read_bytes() == content


def test_no_room_is_seen_before_anything_is_written(server, content, target, monkeypatch):
    usage = download.shutil.disk_usage
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage(path)._replace(free=10))
    with pytest.raises(UserError, match="the disk is full"):
        fetch([server.url], target, content)
    assert files(target) == []


@pytest.fixture
def listed(server, content, monkeypatch):
    """One dataset in the catalogue, on our server and on one that is not there."""
    sha256 = hashlib.sha256(content).hexdigest()
    entry = catalogue.Entry("d4rl:hopper-medium-v2", "gym/hopper_medium-v2.hdf5", len(content), sha256, True)
    monkeypatch.setattr(catalogue, "entries", lambda: {entry.spec: entry})
    monkeypatch.setattr(catalogue, "MIRRORS", {"d4rl": ("http://127.0.0.1:9/{path}", server.url + "/{file}")})
    return entry


def test_get_then_load(listed, capsys):
    assert main(["data", "get", listed.spec]) == 0
    assert "SHA-256 verified" in capsys.readouterr().out
    assert load(listed.spec).size == 11


def test_offline_says_what_to_do_instead(listed, server, capsys):
    server.status = 503
    assert main(["data", "get", listed.spec]) == 2
    message = capsys.readouterr().err.strip()
    assert "\n" not in message
    assert "'gtp data make d4rl:hopper-medium-v2' regenerates it" in message
    with pytest.raises(UserError, match=r"'gtp data get d4rl:hopper-medium-v2' downloads it, 'gtp data make"):
        load(listed.spec)
