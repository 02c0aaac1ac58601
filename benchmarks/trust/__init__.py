"""What becomes of bad inputs, killed studies and very large ones."""
