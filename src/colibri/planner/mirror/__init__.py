"""Second copies of a model's experts on other drives: planned for a budget, staged, verified."""
