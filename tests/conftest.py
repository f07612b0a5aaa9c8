"""All tests share one cache of compiled programs, so that each is compiled once whoever needs it."""

import os
import tempfile

# Both workers of pytest-xdist and the processes that tests start read it from the environment.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="gtp-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
