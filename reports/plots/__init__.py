"""Drawings: plain data in, SVG out. No file, clock or network in here."""
