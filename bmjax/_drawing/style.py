"""Colours, sizes and limits that all pictures share."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

# The colours of Okabe and Ito, for colour-blind readers; dashes tell the next seven from the first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (4, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (1, 1)))
KEPT = COLOURS[0]
GREY = "0.6"
FAINT = "0.75"
PALE = "0.9"
DARK = "0.35"
POINTS = 8  # size of the names
MOST_NAMES = 40  # up to this many rows are all named; largest number of named lines
FEW = 12  # up to this many lines the grey ones are named as well
LONGEST = 30  # largest number of characters of a name
ROW = 0.2  # height of a row in inches
NARROW = 0.35  # height of an unnamed row, in rows
