"""A converted model held against its source, in the memory of a layer."""
