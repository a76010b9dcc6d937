"""What is noted of a model that serves, for whoever watches."""
