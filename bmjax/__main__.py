"""The entry point of `python -m bmjax`; the command itself is in `bmjax._cli`."""

import sys

from bmjax._cli import main

if __name__ == "__main__":
    sys.exit(main())
