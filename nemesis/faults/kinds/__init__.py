"""The kinds of faults as data, a module for each part of the world that they break."""
