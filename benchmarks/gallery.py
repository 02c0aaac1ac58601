"""Every picture that the library draws, for the diabetes data: `python -m benchmarks.gallery`."""

import argparse
from collections.abc import Callable
from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")  # no window, and none needed

import matplotlib.pyplot as plt

import bmjax
from bmjax import plots
from bmjax.datasets import load_diabetes

X, Y, NAMES = load_diabetes()


def coefficients() -> None:
    """Effects with their intervals, and the inclusion rates."""
    plots.coefficients(bmjax.fit(X, Y, intercept=True), NAMES)


def coefficients_standardized() -> None:
    """The same, with effects in standard deviations between the two."""
    plots.coefficients(bmjax.fit(X, Y, intercept=True), NAMES, standardized=True)


def course() -> None:
    """Effects and rates over the steps of a fit from one start."""
    options = {"intercept": True, "history": True, "initial_inclusion": 0.5}
    plots.course(bmjax.fit(X, Y, **options), NAMES)


def path() -> None:
    """The end points of fits from several initial rates."""
    plots.path(X, Y, names=NAMES, intercept=True)


def stability() -> None:
    """How often random halves of the rows keep each feature."""
    halves = bmjax.stability_selection(X, Y, jax.random.key(0), 100, intercept=True)
    plots.stability(halves, NAMES)


PICTURES: tuple[Callable[[], None], ...] = (
    coefficients,
    coefficients_standardized,
    course,
    path,
    stability,
)


def main() -> None:
    """Draw the gallery into a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery", description=__doc__)
    parser.add_argument("folder", nargs="?", default="gallery", help="where to; default: gallery")
    folder = Path(parser.parse_args().folder)
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        picture()
        place = folder / f"{picture.__name__}.png"
        plt.savefig(place, dpi=150)
        plt.close("all")
        print(place, picture.__doc__)


if __name__ == "__main__":
    main()
