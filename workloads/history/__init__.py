"""VOCABULARY: operations and fault rows. Imports nothing of ours."""
