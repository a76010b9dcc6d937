"""What measures the whole: synthetic models, routers of the bench kit, runs and their reports."""
