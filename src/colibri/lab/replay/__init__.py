"""Recorded routing run through caches of other sizes and policies, without a model."""
