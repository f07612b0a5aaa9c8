"""All tests share one cache of compiled programs on disk, and none keeps another file's in memory."""

import atexit
import os
import shutil
import tempfile

import pytest

# Both workers of pytest-xdist and the processes that tests start read these from the environment.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = made_here = tempfile.mkdtemp(prefix="gtp-tests-")
    atexit.register(shutil.rmtree, made_here, ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# JAX writes a program piece by piece: another process may find half of one, for a moment or, where the writer
# was killed or the disk was full, for good. JAX then compiles it itself and warns, which is no fault of ours:
# said here to the processes that tests start, in pyproject.toml to the tests.
os.environ["PYTHONWARNINGS"] = ",".join(
    f"ignore:Error {doing} persistent compilation cache entry:UserWarning" for doing in ("reading", "writing")
)
# Most programs of tests run once or twice, and compiling them is what takes the time: unoptimised it takes a
# third of what even the next level takes, which is for what runs for long (`optimised`, `probe.LOOP`).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# The emitters of fused loops are among XLA's "extra options", which every version reads and those without
# them ignore.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=1 --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
)


@pytest.fixture
def optimised():
    """What this test compiles runs for long enough to be worth optimising."""
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Thousands of small programs are gigabytes: drop them when a file of tests is done."""
    yield
    import jax

    jax.clear_caches()
