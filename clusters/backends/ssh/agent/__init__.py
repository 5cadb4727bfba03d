"""What runs on a machine: a zip archive of these modules, copied there under its checksum, started by ``python3`` (3.10 or newer).

Standard library only. Two processes: the *guardian* (:mod:`.guardian`), which sshd started and which watches over the lease, and the
*worker* (:mod:`.worker`), process 1 of a process namespace, which serves requests and is the parent of the node's processes. When either
dies, the node dies with it; the guardian then removes the rules.
"""
