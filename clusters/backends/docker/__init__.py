"""Nodes as containers of a docker engine on this machine, through docker-py.

Each node has a *holder*: a container whose one process waits for ever and whose network namespace, on an internal network made for
the run, is the node's. The node's process is another container that shares that namespace, a fresh one for each incarnation: so
addresses and cut links outlive kills and restarts, and the candidate's image needs no tools and no capability.

Links are cut from outside, by packet filters that the controller puts into the holders' namespaces before anything else runs there;
the same filters keep a node from everything but the other nodes and answers to clients. The node's directory is mounted, so that
disks and evidence lie in the run's folder as they do on ``local``.

:mod:`.cluster` is what the rest of the project uses; :mod:`.engine` reaches the engine; :mod:`.image` builds what nodes run in;
:mod:`.network` makes holders and links, :mod:`.filters` says what packets pass; :mod:`.containers` runs the nodes' processes;
:mod:`.marks` is how leftovers are found; :mod:`.doctor` tries what a machine permits.
"""
