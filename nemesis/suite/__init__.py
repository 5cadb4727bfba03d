"""Several scenarios on several candidates, one after the other: what is run, what came of it, what it means together."""
