"""VOCABULARY: Kafka's framing, headers and messages over kio. Bytes in, messages out; no socket."""
