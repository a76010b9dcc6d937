"""What weights may be stored as. A format is an object; table.py lists them all."""
