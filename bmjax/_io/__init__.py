"""Input and output: files that are written whole, and progress bars."""
