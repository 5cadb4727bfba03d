"""What an agent refuses, told to a person with what mends it."""

from __future__ import annotations

from clusters.backends.ssh.inventory import Machine
from workloads.problem import Problem


def refusal(machine: Machine, slug: str, text: str, remedy: str | None = None) -> Problem:
    """The Problem for an agent's (slug, text); with a remedy it is a companion's own and passed on."""
    if remedy is not None:
        return Problem(slug, f"{machine}: {text}", remedy)
    told = {
        "machine-not-root": (
            f"The agent on {machine} is not root there, and packet filter rules and process namespaces need root.",
            'Set sudo = true in the inventory (and allow sudo without a password), or user = "root".',
        ),
        "machine-busy": (
            f"Another run has {machine}: {text}.",
            "Wait until it ends; `nemesis clean --inventory FILE --dry-run` shows what is there.",
        ),
        "links-not-available": (
            f"{machine} cannot cut links: {text}.",
            "Install nftables or iptables there (apt-get install nftables), with a kernel that has them.",
        ),
        "address-not-there": (
            f"{machine.address} is not an address of {machine} at which a node can listen ({text}).",
            "Mend `address` in the inventory; `ip address` there shows the right one, `ss -lun` who uses its port 9093.",
        ),
        "node-runs": (f"The node on {machine} has a running process already.", "End it before a new start."),
        "node-not-started": (f"The node on {machine} cannot be started: {text}.", "See its output."),
        "LinksError": (f"{machine} refuses to change its links: {text}.", "Look at that machine's packet filter."),
        "CacheError": (f"A file did not reach {machine} as it was sent: {text}.", "Repeat the command."),
        "FilesError": (f"{machine}: {text}.", "Look at the run's files on that machine."),
    }
    what, remedy = told.get(slug, (f"{machine} refuses: {text}.", "Look at that machine; disk and permissions first."))
    names = {
        "LinksError": "cut-refused",
        "CacheError": "copy-damaged",
        "FilesError": "evidence-foreign",
        "OSError": "machine-refuses",
    }
    return Problem(names.get(slug, slug), what, remedy)
