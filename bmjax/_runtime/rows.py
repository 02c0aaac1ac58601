"""Calls of a compiled function of rows, on one device or spread over the devices of a mesh."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from bmjax._runtime import sharding
from bmjax._runtime.programs import PROGRAMS


def call(
    function: Callable[..., Any], own: tuple, shared: tuple, mesh: Mesh | None, **static: Any
) -> Any:
    """The results of a function whose rows do not depend on each other, as NumPy arrays.

    Args:
        function: A pure function, defined at the top level of a module, of the arrays in `own` and
            then those in `shared`. It returns a pytree of arrays with the rows in front.
        own: Pytrees of arrays with the rows in front.
        shared: Pytrees of arrays that all rows share.
        mesh: The devices along one axis, or None for one device. With several processes each has
            all rows of the result.
        **static: The other arguments of the function, by name, each hashable.
    """
    if mesh is None:
        found = PROGRAMS.call(function, *own, *shared, static=static)
        return jax.tree.map(np.asarray, found)
    rows = len(jax.tree.leaves(own)[0])
    # All devices get as many rows: those that are missing repeat others, and are dropped again.
    at = np.arange(rows + -rows % mesh.size) % rows
    found = PROGRAMS.call(
        _spread,
        jax.tree.map(lambda leaf: sharding.split(mesh, leaf[at]), own),
        sharding.everywhere(mesh, shared),
        sharding.split(mesh, np.full(mesh.size, len(at) // mesh.size, np.int32)),
        static={"function": function, "mesh": mesh, **static},
    )
    return jax.tree.map(lambda leaf: leaf[:rows], sharding.to_host(found))


def _spread(
    own: tuple,
    shared: tuple,
    counts: Any,
    *,
    function: Callable[..., Any],
    mesh: Mesh,
    **static: Any,
) -> Any:
    """The function on every device of a mesh, each with its own rows."""

    def local(own: tuple, shared: tuple, count: Any) -> Any:
        del count
        return function(*own, *shared, **static)

    return sharding.spread(local, mesh)(own, shared, counts)
