"""Files that `nemesis init` writes."""
