"""Tests that need a kernel with netem, run by one that has it: user-mode Linux, which is an ordinary process."""
