"""The parts of the pictures of `bmjax.plots`: colours, panels, names in any script."""

try:
    import matplotlib as matplotlib
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "matplotlib":
        raise
    raise ModuleNotFoundError(
        'bmjax.plots needs matplotlib: pip install "bmjax[plot]"', name=error.name
    ) from error
