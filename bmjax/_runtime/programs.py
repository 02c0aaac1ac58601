"""A cache of the compiled programs that a process has used last.

XLA maps memory for every kernel it compiles, and Linux grants a process 65 530 maps; a process that
fits datasets of ever new shapes would fail. So each set of shapes and static arguments has its own
wrapper, and the least recently used wrappers are dropped, with all they hold.
"""

import gc
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any

import jax
import numpy as np

from bmjax._runtime.threads import Settings

# A program of a default fit holds some 300 maps.
_MOST = 32
# XLA's newer emitters take half as long again to compile on a CPU, and the code they emit takes a
# tenth longer for a batch of small datasets and as long for large ones (measured, jaxlib 0.10).
_ON_CPU = {"xla_cpu_use_fusion_emitters": False}


class Programs:
    """A bounded cache of compiled functions.

    Args:
        most: Number of programs to keep.
    """

    def __init__(self, most: int = _MOST):
        self._most = most
        self._kept: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """The number of programs kept."""
        return len(self._kept)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        static: Mapping[str, Any],
    ) -> Any:
        """Call a function of arrays, compiled for their shapes and types.

        Args:
            function: A pure function, defined at the top level of a module.
            *arguments: Pytrees of arrays.
            static: The other arguments of the function, by name, each hashable.
        """
        whole = partial(function, **static)
        if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            return whole(*arguments)
        key = function, tuple(static.items()), _signature(arguments), Settings.here()
        try:
            hash(key)
        except TypeError:  # such as a user's function that is not hashable
            return jax.jit(whole)(*arguments)
        with self._lock:
            program = self._kept.pop(key, None)
            if program is None:
                # Compiled ahead of time, it also runs while the caller's function is traced.
                program = _compiled(jax.jit(whole).lower(*arguments))
            self._kept[key] = program
            dropped = len(self._kept) > self._most
            if dropped:
                self._kept.popitem(last=False)
        if dropped:
            gc.collect()  # executables are in reference cycles
        return program(*arguments)


def _compiled(lowered: Any) -> Callable[..., Any]:
    """The program compiled, on a CPU in the shortest way that this release of XLA knows."""
    if jax.default_backend() == "cpu":
        try:
            return lowered.compile(_ON_CPU)
        except jax.errors.JaxRuntimeError:  # a release with other switches
            pass
    return lowered.compile()


def _signature(arguments: Any) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    kinds = ((np.shape(leaf), str(leaf.dtype), getattr(leaf, "sharding", None)) for leaf in leaves)
    return structure, tuple(kinds)


PROGRAMS = Programs()
