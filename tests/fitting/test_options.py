"""The options that every kind of fit takes, as `help` shows them."""

import inspect

import pytest

import bmjax


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bmjax.fit, "Options are given by name."),
        (bmjax.fit_batch, "Options are given by name, and are the same for all datasets."),
        (bmjax.fit_stream, "two come after every fit."),
    ],
)
def test_what_is_said_of_all_options_is_read_before_them(function, said):
    above, _, below = inspect.getdoc(function).partition("\nArgs:\n")
    paragraph = " ".join(above.rstrip().split("\n\n")[-1].split())
    assert paragraph.startswith("Options are given by name")
    assert paragraph.endswith(said)
    assert "options:" not in below
    documented = below.partition("\nReturns:\n")[0]
    for name in inspect.signature(function).parameters:
        assert documented.count(f"\n    {name}: ") + documented.startswith(f"    {name}: ") == 1
    assert max(map(len, function.__doc__.splitlines())) <= 100
