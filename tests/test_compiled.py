"""The tests' own cache of compiled programs, which many processes write and read at once."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
PROGRAM = "import jax.numpy as jnp; print(float(jnp.linspace(0.0, 1.0, 5) @ jnp.arange(5.0)))"


def said_by(*argv: str, cache: Path) -> str:
    """What a child with this cache, and otherwise in the tests' environment, prints on both streams."""
    done = subprocess.run(
        [sys.executable, *argv],
        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=TESTS.parent,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def halve_all(cache: Path) -> None:
    """Leave of every program in the cache what a writer had written when it was killed."""
    entries = list(cache.glob("*-cache"))
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])


def test_a_child_compiles_half_a_program_again_and_says_nothing(tmp_path):
    assert said_by("-c", PROGRAM, cache=tmp_path) == "7.5\n"
    halve_all(tmp_path)
    assert said_by("-c", PROGRAM, cache=tmp_path) == "7.5\n"


def test_half_a_program_fails_no_test(tmp_path):
    some_tests = ["-m", "pytest", "-p", "no:cacheprovider", f"{TESTS}/test_noise.py", "-k", "linspace_grid"]
    said_by(*some_tests, cache=tmp_path)
    halve_all(tmp_path)
    assert "3 passed" in said_by(*some_tests, cache=tmp_path)
