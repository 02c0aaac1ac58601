"""What a user may hand over: arrays of numbers, and arguments in range."""
