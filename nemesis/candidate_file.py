"""Reads the TOML file that describes a program (CANDIDATES.md): every mistake is told with file and line, all of them at once."""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checker.checks.transitions import GENERATIONS
from clusters.candidates.external import description as parts
from clusters.candidates.external import placeholders
from clusters.candidates.external.description import Description
from nemesis.candidate_evidence import read_evidence, read_layout
from nemesis.toml_lines import Path as Keys
from nemesis.toml_lines import decode_error, lines_of
from nemesis.toml_reader import Check, Reader, is_number, is_one_of, is_text, is_whole, told_mistakes
from workloads.history.manifest import Timers
from workloads.problem import Problem
from workloads.registry import WORKLOADS

PROTOCOLS = {"kafka-controller": "kafka", "reference": "reference"}
"""as written in the file → :attr:`clusters.candidates.candidate.Traits.protocol`"""
PROMISES = (
    "check-quorum",
    "pre-vote",
    "directory-identity",
    "linearizable-reads",
    "linearizable-operations",
    "node-trace",
    "durable-votes",
)
_TAKEN = ("reference", "kafka")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_TABLES = {
    "install": ("command", "once", "patience_s", "files"),
    "artifacts": None,
    "files": None,
    "lists": None,
    "format": ("command", "rejoin_command", "patience_s", "directory_id", "files"),
    "start": ("command", "env"),
    "stop": ("signal", "patience_s"),
    "probe": ("ready_line", "patience_s"),
    "timers": tuple(Timers.__struct_fields__),
    "clients": ("protocol", "workloads"),
    "membership": ("listener",),
    "disk": ("everything", "meta_properties", "log", "quorum_state", "snapshots"),
    "evidence": ("transitions", "trace", "output"),
}
"""table → its keys, None for those that a person names"""
_KEYS = ("name", "version", "quorum", "promises")
_REMEDY = "CANDIDATES.md explains every key; `nemesis init candidate FILE.toml` writes a commented file."


def load_description(path: Path) -> Description:
    """Read a file. Raises Problem ``candidate-unreadable``, ``candidate-malformed`` (usage) with every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise Problem(
            "candidate-unreadable",
            f"The description {path} cannot be read: {why}.",
            "Name a TOML file; `nemesis init candidate FILE.toml` writes one with comments.",
            usage=True,
        ) from error
    return parse_description(text, path)


def parse_description(text: str, path: Path) -> Description:
    """Read the text of the file ``path``; relative paths in it begin at its directory."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, line = decode_error(str(error))
        raise _malformed(path, [(line or len(text.splitlines()), f"this is no TOML: {what}.")]) from error
    reading = _Reading(Reader(str(path), lines_of(text)), raw, text)
    described = reading.description(path)
    if reading.reader.mistakes:
        raise _malformed(path, reading.reader.mistakes)
    return described


def _malformed(path: Path, mistakes: Iterable[tuple[int, str]]) -> Problem:
    return Problem("candidate-malformed", told_mistakes(str(path), mistakes), _REMEDY, usage=True)


def _is_argv(value: object) -> str | None:
    fits = isinstance(value, list) and value and all(isinstance(each, str) for each in value) and value[0].strip()
    return None if fits else 'a list of texts: ["program", "--option", "value"]'


def _is_bool(value: object) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _is_pattern(group: str = "") -> Check:
    def check(value: object) -> str | None:
        if not isinstance(value, str) or not value:
            return "a pattern"
        try:
            named = re.compile(value).groupindex
        except re.error as error:
            return f"a pattern of Python's re ({error})"
        return None if not group or group in named else f"a pattern with a group (?P<{group}>…)"

    return check


def _is_inside(value: object) -> str | None:
    fits = isinstance(value, str) and value and not value.startswith("/") and ".." not in value.split("/")
    return None if fits else "a relative path without .."


class _Reading:
    """One file being read."""

    def __init__(self, reader: Reader, raw: Mapping[str, Any], text: str) -> None:
        self.reader = reader
        self._raw = raw
        self._lines = text.splitlines()
        self._artifacts: tuple[parts.Artifact, ...] = ()
        self._lists: dict[str, parts.NodeList] = {}

    def description(self, path: Path) -> Description:
        """All of it; where there are mistakes it means nothing."""
        self._known_keys()
        raw, take = self._raw, self.reader.take
        for key in ("name", "version", "quorum"):
            if key not in raw:
                self.reader.wrong((), f"{key} is missing.")
        name = take(raw, (), "name", is_text, "")
        if name and (not _NAME.fullmatch(name) or name in _TAKEN):
            self.reader.wrong(
                ("name",), f"name {name!r} is {'taken' if name in _TAKEN else 'no name'}: letters, digits, . _ -"
            )
        install = self._install()
        self._artifacts = self._read_artifacts(install)
        self._lists = self._read_lists()
        layout = read_layout(self.reader, self._table("disk"))
        transitions, trace, output = read_evidence(self.reader, self._table("evidence"), tuple(GENERATIONS))
        how = self._format()
        start = self._table("start")
        protocol, workloads = self._clients()
        described = Description(
            name=name,
            version=take(raw, (), "version", is_text, ""),
            quorum=take(raw, (), "quorum", is_one_of(("static", "dynamic")), "dynamic"),
            protocol=protocol,
            workloads=workloads,
            promises=self._promises(trace=trace, directory_id=how.directory_id),
            start=self._argv(start, ("start",), "command", self._when_started, needed=True),
            env=self._texts(start, ("start",), "env", self._when_started),
            layout=layout,
            home=path.absolute().parent,
            written="\n".join(self._lines) + "\n",
            source=str(path),
            generation=transitions,
            trace=trace,
            output=output,
            install=install,
            artifacts=self._artifacts,
            files=self._files(raw.get("files", []), ("files",), self._when_started),
            lists=self._lists,
            format=how,
            stop_signal=self._stop_signal(),
            stop_patience_s=take(self._table("stop"), ("stop",), "patience_s", is_number(0, 600), None),
            probe=self._probe(),
            timers=self._timers(),
            voter_listener=take(self._table("membership"), ("membership",), "listener", is_text, None),
        )
        if trace and "{{trace" not in "".join(self._lines).replace(" ", ""):
            self.reader.wrong(
                ("evidence", "trace"), "trace = true, and no text has {{trace}}: nodes would not know where to."
            )
        return described

    # Placeholders

    @property
    def _when_formatted(self) -> frozenset[str]:
        return self._named | placeholders.NODE.keys() | placeholders.CONTROLLER.keys()

    @property
    def _when_started(self) -> frozenset[str]:
        return self._named | placeholders.NODE.keys() | placeholders.START.keys()

    @property
    def _named(self) -> frozenset[str]:
        return frozenset((*(f"artifact.{each.name}" for each in self._artifacts), *self._lists))

    def _check(self, text: str, path: Keys, known: Iterable[str]) -> str:
        """Tell what stands between double braces and means nothing here."""
        names = frozenset(known)
        for written, name, changed in placeholders.found(text):
            if name not in names:
                self._wrong_placeholder(path, written, name, names)
            if changed and changed not in placeholders.FILTERS:
                self._at(path, written).unknown(path, f"filter of {{{{{name}}}}}", changed, placeholders.FILTERS)
        if "{{" in placeholders.without(text):
            broken = next(line for line in text.splitlines() if "{{" in placeholders.without(line))
            self._at(path, broken).wrong(path, "a {{ that begins no placeholder: {{node_id}}, or {{data | json}}.")
        return text

    def _wrong_placeholder(self, path: Keys, written: str, name: str, known: frozenset[str]) -> None:
        at = self._at(path, written)
        where = next((place for place, names in placeholders.PLACES.items() if name in names), None)
        if where is not None:
            at.wrong(path, f"{written} means something {where} only.")
        else:
            at.unknown(path, "placeholder", name, known)

    def _at(self, path: Keys, written: str) -> Reader:
        """The reader, with ``path`` at the very line of a text that has ``written``: multi-line texts are long."""
        lines = self.reader.lines
        here = path
        while here not in lines:
            here = here[:-1]
        first = lines[here]
        exact = next((n for n in range(first, len(self._lines) + 1) if written in self._lines[n - 1]), first)
        return Reader(self.reader.source, {**lines, path: exact}, self.reader.mistakes)

    # Tables

    def _table(self, key: str) -> Mapping[str, Any]:
        table = self._raw.get(key, {})
        return table if isinstance(table, dict) else {}

    def _known_keys(self) -> None:
        for key, value in self._raw.items():
            if key not in _KEYS and key not in _TABLES:
                self.reader.unknown((key,), "key", key, (*_KEYS, *_TABLES))
            elif key in _TABLES and key != "files" and not isinstance(value, dict):
                self.reader.wrong((key,), f"{key} must be a table: write [{key}] above its keys.")
            elif (known := _TABLES.get(key)) is not None:
                for each in value:
                    if each not in known:
                        self.reader.unknown((key, each), f"key of [{key}]", each, known)

    def _argv(
        self, table: Mapping[str, Any], path: Keys, key: str, known: Iterable[str], *, needed: bool = False
    ) -> tuple[str, ...]:
        if needed and key not in table:
            self.reader.wrong(path, f"{key} is missing in [{'.'.join(map(str, path))}].")
        words = self.reader.take(table, path, key, _is_argv, [])
        return tuple(self._check(word, (*path, key), known) for word in words)

    def _texts(self, table: Mapping[str, Any], path: Keys, key: str, known: Iterable[str]) -> dict[str, str]:
        texts = table.get(key, {})
        if not isinstance(texts, dict) or not all(isinstance(each, str) for each in texts.values()):
            self.reader.wrong((*path, key), f"{key} must be a table of texts.")
            return {}
        return {name: self._check(text, (*path, key, name), known) for name, text in texts.items()}

    def _files(
        self, entries: object, path: Keys, known: Iterable[str], *, disk: bool = False
    ) -> tuple[parts.TextFile, ...]:
        header = ".".join(map(str, path))
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.reader.wrong(path, f"{header} must be tables: write [[{header}]] above each one.")
            return ()
        keys = ("path", "text", "when") if disk else ("path", "text")
        found = []
        for number, entry in enumerate(entries):
            here = (*path, number)
            for key in entry:
                if key not in keys:
                    self.reader.unknown((*here, key), f"key of [[{header}]]", key, keys)
            for key in ("path", "text"):
                if key not in entry:
                    self.reader.wrong(here, f"{key} is missing.")
            where = self.reader.take(entry, here, "path", _is_inside, "")
            if not disk and where.split("/")[0] in ("data", "output", "trace", "collections"):
                self.reader.wrong(
                    (*here, "path"), f"{where.split('/')[0]}/ is not for files of yours: config/… is, say."
                )
            text = entry.get("text", "")
            if not isinstance(text, str):
                self.reader.wrong((*here, "text"), "text must be a text.")
                text = ""
            moments = (parts.ALWAYS, parts.FIRST, parts.REJOIN)
            when = self.reader.take(entry, here, "when", is_one_of(moments), parts.ALWAYS)
            found.append(parts.TextFile(where, self._check(text, (*here, "text"), known), when))
        return tuple(found)

    def _install(self) -> parts.Install | None:
        if "install" not in self._raw:
            return None
        table, path, known = self._table("install"), ("install",), placeholders.CONTROLLER
        install = parts.Install(
            command=self._argv(table, path, "command", known, needed=True),
            once=self.reader.take(table, path, "once", _is_bool, False),
            files=self._texts(table, path, "files", known),
            patience_s=self.reader.take(table, path, "patience_s", is_number(1, 86_400), 1800.0),
        )
        if install.files and not install.once:
            self.reader.wrong(
                ("install", "files"), "files are written where once = true runs the command; else they are yours."
            )
        for name in install.files:
            if _is_inside(name):
                self.reader.wrong(("install", "files", name), f"{name!r} must be a relative path without ...")
        return install

    def _read_artifacts(self, install: parts.Install | None) -> tuple[parts.Artifact, ...]:
        found = []
        known = placeholders.CONTROLLER if install is not None and install.once else ("here",)
        for name, value in self._table("artifacts").items():
            path = ("artifacts", name)
            given = {"path": value} if isinstance(value, str) else value
            if (
                not isinstance(given, dict)
                or not isinstance(given.get("path"), str)
                or given.keys() - {"path", "sha256"}
            ):
                self.reader.wrong(path, f'{name} must be a path, or {{ path = "…", sha256 = "…" }}.')
                continue
            if not _WORD.fullmatch(name):
                self.reader.wrong(path, f"{name!r} is no name for an artifact: letters, digits, _ and -.")
            found.append(parts.Artifact(name, self._check(given["path"], path, known), given.get("sha256")))
        return tuple(found)

    def _read_lists(self) -> dict[str, parts.NodeList]:
        found = {}
        for name, table in self._table("lists").items():
            path = ("lists", name)
            if not isinstance(table, dict) or not isinstance(table.get("each"), str):
                self.reader.wrong(
                    path, f'{name} must be a table with each = "{{{{each.address}}}}:{{{{each.port}}}}", say.'
                )
                continue
            if not _WORD.fullmatch(name) or name in (placeholders.NODE.keys() | placeholders.START.keys()):
                self.reader.wrong(path, f"{name!r} is taken, or no name for a list: letters, digits, _ and -.")
            for key in table:
                if key not in ("of", "each", "between"):
                    self.reader.unknown((*path, key), f"key of [lists.{name}]", key, ("of", "each", "between"))
            between = table.get("between", ",")
            found[name] = parts.NodeList(
                of=self.reader.take(table, path, "of", is_one_of(("voters", "nodes", "others")), "voters"),
                each=self._check(table["each"], (*path, "each"), placeholders.EACH),
                between=between if isinstance(between, str) else ",",
            )
        return found

    def _format(self) -> parts.Format:
        table, path = self._table("format"), ("format",)
        rejoin = self._argv(table, path, "rejoin_command", self._when_formatted) if "rejoin_command" in table else None
        return parts.Format(
            command=self._argv(table, path, "command", self._when_formatted),
            rejoin_command=rejoin,
            files=self._files(table.get("files", []), ("format", "files"), self._when_formatted, disk=True),
            directory_id=self._directory_id(table.get("directory_id", parts.ASSIGNED)),
            patience_s=self.reader.take(table, path, "patience_s", is_number(1, 3600), 60.0),
        )

    def _directory_id(self, value: object) -> parts.DirectoryId:
        path = ("format", "directory_id")
        words = (parts.ASSIGNED, parts.META_PROPERTIES, parts.NONE)
        if isinstance(value, str) and value in words:
            return parts.DirectoryId(value)
        pattern = _is_pattern("directory_id")
        if isinstance(value, dict) and value.keys() == {"file", "match"}:
            where = self.reader.take(value, path, "file", _is_inside, "")
            return parts.DirectoryId(parts.FROM_FILE, where, self.reader.take(value, path, "match", pattern, ""))
        if isinstance(value, dict) and value.keys() == {"output"}:
            return parts.DirectoryId(parts.FROM_OUTPUT, match=self.reader.take(value, path, "output", pattern, ""))
        self.reader.wrong(
            path,
            f"directory_id must be one of {', '.join(words)}, {{ file = …, match = '…' }} or {{ output = '…' }}, not {value!r}.",
        )
        return parts.DirectoryId()

    def _promises(self, *, trace: bool, directory_id: parts.DirectoryId) -> tuple[str, ...]:
        promised = self._raw.get("promises", [])
        if not isinstance(promised, list):
            self.reader.wrong(("promises",), f"promises must be a list of {', '.join(PROMISES)}.")
            return ()
        for each in promised:
            if each not in PROMISES:
                self.reader.unknown(("promises",), "promise", str(each), PROMISES)
        if "node-trace" in promised and not trace:
            self.reader.wrong(("promises",), "node-trace is promised, and [evidence] has no trace = true.")
        if "directory-identity" in promised and directory_id.source == parts.NONE:
            self.reader.wrong(("promises",), 'directory-identity is promised, and [format] says directory_id = "none".')
        return tuple(promised)

    def _clients(self) -> tuple[str, tuple[str, ...]]:
        table, path = self._table("clients"), ("clients",)
        if "protocol" not in table:
            self.reader.wrong(path, f"protocol is missing in [clients]: one of {', '.join(PROTOCOLS)}.")
        protocol = PROTOCOLS[self.reader.take(table, path, "protocol", is_one_of(PROTOCOLS), "reference")]
        served = [each.name for each in WORKLOADS if protocol in each.pace]
        chosen = table.get("workloads", served)
        if not isinstance(chosen, list) or not chosen or not all(each in served for each in chosen):
            self.reader.wrong(
                (*path, "workloads"), f"workloads must be a list of {', '.join(served)}, the default first."
            )
            return protocol, tuple(served)
        return protocol, tuple(chosen)

    def _stop_signal(self) -> int:
        name = self.reader.take(self._table("stop"), ("stop",), "signal", is_one_of(_SIGNALS), "SIGTERM")
        return int(signal.Signals[name])

    def _probe(self) -> parts.Probe:
        table, path = self._table("probe"), ("probe",)
        return parts.Probe(
            self.reader.take(table, path, "ready_line", _is_pattern(), ""),
            self.reader.take(table, path, "patience_s", is_number(0.5, 600), 30.0),
        )

    def _timers(self) -> dict[str, int]:
        table = self._table("timers")
        known = [name for name in Timers.__struct_fields__ if name in table]
        found = {name: self.reader.take(table, ("timers",), name, is_whole(1, 3_600_000), None) for name in known}
        return {name: value for name, value in found.items() if value is not None}
