"""Nodes as processes in network namespaces of this machine.

The controller stays outside. It starts one *agent* (:mod:`.agent`), which alone enters the namespaces: it is process 1 of a
process namespace, so that the kernel ends everything of the lab with it, and its own network namespace is the router between
the nodes, from which every node can be reached and no way leads out of the machine.

:mod:`.cluster` is what the rest of the project uses; :mod:`.channel` is the controller's end of the connection to the agent;
:mod:`.namespaces`, :mod:`.network` and :mod:`.processes` are the agent's parts; :mod:`.doctor`
tries what a machine permits.
"""
