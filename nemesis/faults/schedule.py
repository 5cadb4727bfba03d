"""The plan of faults of one run: pure values, all drawn from the seed before anything starts."""
