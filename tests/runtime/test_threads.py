"""The threads of the libraries under NumPy, SciPy and XLA, in a process that has compiled none."""

import subprocess
import sys

_FIRST_USE = """
import jax.numpy as jnp
import jax, threadpoolctl
from bmjax._runtime.threads import one_blas_thread

with threadpoolctl.threadpool_limits(2, user_api="blas"):
    with one_blas_thread():
        jax.block_until_ready(jax.jit(jnp.linalg.cholesky)(jnp.eye(3)))
        pools = threadpoolctl.threadpool_info()
print([pool["num_threads"] for pool in pools if pool["user_api"] == "blas"])
"""


def test_the_library_of_a_later_factorisation_runs_on_one_thread():
    """JAX loads SciPy's library of its own accord, when it compiles the first factorisation."""
    ran = subprocess.run(
        [sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, check=True, timeout=120
    )
    assert set(ran.stdout.strip("[]\n").split(", ")) <= {"1", ""}
