"""Which optimum a fit finds: the default against plain starts, other rules and other methods."""
