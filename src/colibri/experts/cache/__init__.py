"""Which experts are resident: the arena of slots, the caches over it, the orders of eviction."""
