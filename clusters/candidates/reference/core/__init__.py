"""The protocol core of the reference KRaft node: values in, values out; no clock, chance, disk or network in it."""
