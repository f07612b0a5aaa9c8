"""All tests share one cache of compiled programs on disk, and none keeps another file's in memory."""

import os
import tempfile

import pytest

# Both workers of pytest-xdist and the processes that tests start read these from the environment.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="gtp-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
# So programs compile in a third of the time, and small networks run as fast as ever. The emitters of fused
# loops are among XLA's "extra options", which every version reads and those without them ignore.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=1 --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Thousands of small programs are gigabytes: drop them when a file of tests is done."""
    yield
    import jax

    jax.clear_caches()
