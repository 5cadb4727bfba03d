"""VOCABULARY: what nodes leave behind. Imports nothing of ours."""
