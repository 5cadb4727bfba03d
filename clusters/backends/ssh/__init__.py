"""Nodes as processes on other machines, one node a machine, reached through ssh.

An inventory file (:mod:`.inventory`) names the machines. The controller opens one connection to each (:mod:`.connection`) and starts
one *agent* there (:mod:`.agent`), which does everything on that machine: processes, files, link faults, probes. Messages go
over the agent's standard input and output (:mod:`.channel`), since each command through ssh of its own costs over 100 ms.

Link faults are packet filter rules in a table of the run's own, at the receiving machine, for the nodes' data addresses only: the
connection to the controller and whatever else the machine does are not touched. An agent that has heard nothing from its
controller for the length of its lease kills the node, removes its rules and ends.
"""
