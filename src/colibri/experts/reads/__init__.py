"""Experts on their way from the drives: files, spans, jobs, and the readers that run them."""
