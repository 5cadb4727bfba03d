"""Candidates that a TOML file describes: any program that speaks Kafka's protocol."""
