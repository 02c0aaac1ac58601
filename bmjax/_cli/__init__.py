"""The command `python -m bmjax`."""

from bmjax._cli.command import main as main
