"""The examples of docstrings run as they stand; what is public is all there, and nothing else."""

import doctest
import importlib
import inspect
import sys

import jax
import pytest

import bmjax

MODULES = ("baselines", "datasets", "metrics", "plots", "shrinkage", "simulate", "sklearn")


def public():
    """Every public function and class by its full name."""
    for name in bmjax.__all__:
        if not inspect.ismodule(getattr(bmjax, name)):
            yield f"bmjax.{name}", getattr(bmjax, name)
    for name in MODULES:
        module = importlib.import_module(f"bmjax.{name}")
        for member in module.__all__:
            yield f"bmjax.{name}.{member}", getattr(module, member)


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_example(name, monkeypatch):
    if name.startswith("bmjax.plots"):
        import matplotlib

        matplotlib.use("Agg")
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(PUBLIC[name]) or "", {}, name, None, None
    )
    assert example.examples, f"{name} has no example"
    # As for a user: no setting of the suite changes what is promoted.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        failures = []
        runner.run(example, out=failures.append)
    assert runner.failures == 0, "".join(failures)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("name", PUBLIC)
def test_help_names_what_may_be_given_instead_of_listing_it(name):
    """`ArrayLike`, say, and not the eight types that it stands for."""
    value = PUBLIC[name]
    members = vars(value).values() if inspect.isclass(value) else ()
    for one in (value, *filter(inspect.isfunction, members)):
        assert "numpy.number" not in str(inspect.signature(one)), one


def test_names_are_those_that_checkers_see():
    """The table of what is where, and the imports for type checkers beside it, agree."""
    source = inspect.getsource(bmjax).partition("if TYPE_CHECKING:")[2]
    seen = {line.rpartition(" as ")[2] for line in source.splitlines() if " as " in line}
    assert seen == set(bmjax.__all__)
    assert sorted(bmjax.__all__) == bmjax.__all__
    for name in dir(bmjax):
        assert hasattr(bmjax, name)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        bmjax.fitt  # noqa: B018


@pytest.mark.parametrize("name", [*MODULES, None])
def test_nothing_leaks(name):
    module = bmjax if name is None else importlib.import_module(f"bmjax.{name}")
    for member in dir(module):
        value = getattr(module, member)
        if not member.startswith("__") and not inspect.ismodule(value):
            assert value.__module__.startswith("bmjax"), member
