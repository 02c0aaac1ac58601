"""float64 is enabled throughout; what runs in float32 gets float32 arrays and must stay there."""

import os
from importlib import metadata
from pathlib import Path

# The suite is bound by compilation: without LLVM's optimisations it takes two thirds of the time,
# without XLA's fusion emitters two thirds of that, and without its look into loops, which real runs
# are faster with, less again. The package does without the emitters in most programs by itself.
# Newer releases of XLA cannot go without them, and end the process at a switch they do not know.
# The CPU counts as eight devices, of which all tests but those of meshes use the first.
# Read when JAX starts its backend, so it has to be set before anything is computed.
_RELEASE = tuple(map(int, metadata.version("jaxlib").split(".")[:2]))
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8"
    " --xla_disable_hlo_passes=while-loop-invariant-code-motion,simplify-while-loops"
    + (" --xla_cpu_use_fusion_emitters=false" if _RELEASE < (0, 11) else ""),
)

# Compiled programs are kept beside pytest's own cache: workers and processes started by tests share
# them, and so does the next run.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import jax
import jax.numpy as jnp
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


# Every compiled program maps memory, and the process is killed where it has 65 530 maps (Linux).
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 25_000


@pytest.fixture(autouse=True)
def _room_for_programs():
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return jnp.dtype(request.param)


@pytest.fixture
def rounding(dtype):
    """A relative tolerance of some hundred roundings: sums of a few hundred terms."""
    return 500 * float(jnp.finfo(dtype).eps)
