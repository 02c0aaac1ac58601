"""Files that are written whole, and progress bars."""
