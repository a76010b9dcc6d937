"""Which experts are for which topics, measured."""
