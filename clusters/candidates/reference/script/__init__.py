"""Virtual time: a quorum of the reference on a simulated network and disk, told by a script what to do. Same seed, same run."""
