"""Compiled programs, of which a process keeps the ones used last.

XLA maps memory for every kernel it compiles, and Linux grants a process 65 530 maps; a process
that fits datasets of ever new shapes would end. So each set of shapes and static arguments has a
wrapper of its own, and the wrappers not used for longest are let go, with all they hold.
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


class Programs:
    """A bounded cache of compiled functions.

    Args:
        most: How many programs to keep.
    """

    def __init__(self, most: int = _MOST):
        self._most = most
        self._kept: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """How many programs are kept."""
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
            static: Its other arguments, by name, each hashable.
        """
        whole = partial(function, **static)
        if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            return whole(*arguments)
        key = function, tuple(static.items()), _signature(arguments), Settings.here()
        try:
            hash(key)
        except TypeError:  # a user's function that cannot be told from another
            return jax.jit(whole)(*arguments)
        with self._lock:
            program = self._kept.pop(key, None)
            if program is None:
                # Compiled ahead, it runs also while a function of the caller's is being traced.
                program = jax.jit(whole).lower(*arguments).compile()
            self._kept[key] = program
            dropped = len(self._kept) > self._most
            if dropped:
                self._kept.popitem(last=False)
        if dropped:
            gc.collect()  # executables sit in reference cycles
        return program(*arguments)


def _signature(arguments: Any) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    kinds = ((np.shape(leaf), str(leaf.dtype), getattr(leaf, "sharding", None)) for leaf in leaves)
    return structure, tuple(kinds)


PROGRAMS = Programs()
