"""Tool calls in text: one format a file."""
