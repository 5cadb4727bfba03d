"""VOCABULARY: a problem that a person can mend, said so that they know what to type next.

Every package raises :class:`Problem` for what is not a defect of the candidate: a wrong option, a missing Java, a torn
history, an unreachable node. The command line prints it in one block and maps it to an exit code (254 when ``usage`` is
set, else 255); it is never a finding about the candidate.
"""

from __future__ import annotations


class Problem(Exception):
    """Something that stops the work and that a person can mend.

    ``slug`` is a stable name for scripts (``java-missing``), ``what`` names the value and the place, ``remedy`` is the
    next thing to type or do, ``usage`` tells a wrong argument (exit code 254) from a failed set-up (255).
    """

    def __init__(self, slug: str, what: str, remedy: str = "", *, usage: bool = False) -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.slug = slug
        self.what = what
        self.remedy = remedy
        self.usage = usage
