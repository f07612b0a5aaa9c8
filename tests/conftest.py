"""All tests share one cache of compiled programs on disk, and none keeps another file's in memory."""

import os
import tempfile

import pytest

# Both workers of pytest-xdist and the processes that tests start read it from the environment.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="gtp-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Thousands of small programs are gigabytes: drop them when a file of tests is done."""
    yield
    import jax

    jax.clear_caches()
