"""What is wrong with a model's directory or the machine, and what to do about it."""
