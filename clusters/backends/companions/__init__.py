"""Companions: programs that run *beside* a node, in its network namespace, outlive its restarts, and are no part of it.

A companion is a module of this package with a function ``serve(requests: Requests) -> None``; it uses the standard library only, since
it travels to other machines (Python 3.10 or newer) in the agent's archive, and is started as ``python -m clusters.backends.companions
NAME`` with the node's namespace already entered.

Each line of standard input is a request, ``{"op": …, …}``; each is answered, in order, by a line of standard output:
``{"value": …}``, or ``{"problem": [slug, what, remedy]}``. The first one is ``{"op": "begin", …settings…}``. The end of standard input is
the end: the companion undoes what it made and leaves. When its parent dies it is killed, and what it made in a namespace of the
run's own goes with that namespace.

:mod:`.requests` is the companion's end of this, :mod:`.company` the other one.
"""
