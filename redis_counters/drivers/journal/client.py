"""The journal of one client: it records changes, and takes over the journals of killed processes.

Drivers lock and wait; each method here does one thing. Recording has three steps: ``take`` and ``written`` need the
core, ``write`` must not hold it up.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from redis_counters.drivers.journal.errors import cause
from redis_counters.drivers.journal.file import Error, Gone, JournalFile, sweep
from redis_counters.drivers.journal.salvage import Reading
from redis_counters.errors import NotRecorded, UsageError, quoted
from redis_counters.events import Event, EventKind
from redis_counters.protocol.core import Core
from redis_counters.protocol.journal.changes import Changes, Stored
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.journal.recovery import Orphan
from redis_counters.protocol.wire.values import Name, name_bytes

RETRY_S = 1.0  # until a journal that could not be written is tried again
SEEK_S = 60.0  # between looks for the journals of killed processes


class Writing(NamedTuple):
    """Changes on their way, to the file that the recorder had when they were taken (None: to a new one)."""

    recorder: Recorder
    changes: Changes
    file: JournalFile | None


class Journal:
    """The journals of one client: its own, made when there is something to record, and those it took over."""

    def __init__(self, core: Core) -> None:
        assert core.settings.journal is not None
        self.core = core
        self.directory = Path(os.path.abspath(core.settings.journal))
        check_directory(self.directory)
        self.begin()

    def begin(self) -> None:
        """Nothing is recorded, and nothing taken over: at the start, and in the child of a fork."""
        self.files: dict[Recorder, JournalFile] = {}
        self.orphans: list[tuple[Orphan, JournalFile]] = []
        self.empty: list[JournalFile] = []  # not needed any more
        self.making = threading.Lock()
        self.seek_at = float("-inf")  # for journals of killed processes
        self.failing = False
        self.retry_at = float("-inf")
        self.closed = False

    def try_now(self) -> None:
        """There is no later."""
        self.retry_at = float("-inf")

    def unknown(self) -> None:
        """The outcome of a write that may have been in flight will never be known."""
        for recorder in (self.core.recorder, *(orphan.recorder for orphan in self.core.orphans)):
            if recorder is not None:
                recorder.put_back(unknown=True)

    @property
    def unused(self) -> bool:
        """Nothing was ever recorded, nor taken over: there is nothing to let go of."""
        return not (self.files or self.orphans or self.empty)

    @property
    def may_seek(self) -> bool:
        """True if it is time to look for journals of killed processes: one may be killed at any time."""
        return not self.closed and self.core.clock() >= self.seek_at

    # -- recording

    def take(self, recorder: Recorder) -> Writing | bool:
        """Return what is to be written; True: there is nothing, False: it would fail. The core is the caller's."""
        if self.closed or (self.failing and self.core.clock() < self.retry_at):
            return False
        changes = recorder.take()
        return True if changes is None else Writing(recorder, changes, self._find(recorder))

    def write(self, writing: Writing) -> None:
        """The changes are in the file. Raises what `written` is to know; touches nothing of the core."""
        (writing.file or self._file(writing.recorder)).write(writing.changes)

    def written(self, writing: Writing, error: BaseException | None) -> bool:
        """The recorder knows how that went. Returns whether it went well. The core is the caller's."""
        recorder = writing.recorder
        if error is None:
            recorder.kept()
            self._worked()
            return True
        recorder.put_back(unknown=self._find(recorder) is not None)
        self._failed(recorder, writing.file, error)
        if not isinstance(error, Error):
            raise error
        return False

    def append(self, name: Name, amount: int) -> None:
        """One call is recorded by itself, before it is counted. Raises NotRecorded. The core is the caller's."""
        writer = self.core.writer
        recorder = self.core.recorder
        assert recorder is not None
        file: JournalFile | None = None
        try:
            if self.closed:
                raise OSError("the journal is closed")
            file = self._file(recorder)
            raw = name_bytes(name)
            expiry = writer.router.expiries.known.get(raw)
            file.append(writer.calls + 1, raw, amount, None if expiry is None else expiry.at)
        except Error as error:
            self._failed(recorder, file, error)
            raise NotRecorded(
                f"counter {quoted(name)} was not counted: the journal in {str(self.directory)!r} cannot be written: "
                f"{cause(error, self.directory)}"
            ) from error
        writer.calls += 1
        recorder.anything = True
        self._worked()

    def _find(self, recorder: Recorder) -> JournalFile | None:
        for orphan, file in self.orphans:
            if orphan.recorder is recorder:
                return file
        return self.files.get(recorder)

    def _forget(self, file: JournalFile | None) -> None:
        self.orphans = [(orphan, each) for orphan, each in self.orphans if each is not file]
        self.files = {recorder: each for recorder, each in self.files.items() if each is not file}

    def _file(self, recorder: Recorder) -> JournalFile:
        with self.making:  # one thread may append a call while another one writes what changed
            file = self._find(recorder)
            if file is None:
                settings = self.core.settings
                about = Stored(settings.namespace, settings.region, recorder.strict)
                file = self.files[recorder] = JournalFile.make(self.directory, about, self.core.mint)
            return file

    def _failed(self, recorder: Recorder, file: JournalFile | None, error: BaseException) -> None:
        if isinstance(error, Gone):
            if file is None or file is not self._find(recorder):
                return  # another thread has noticed
            self._forget(file)
            file.remove()
            recorder.start_over()  # the next is written to a new file, and from the beginning
        else:
            self.retry_at = self.core.clock() + RETRY_S
        self.core.journal_failures += 1
        if not self.failing:
            self.failing = True
            self.core.report(
                EventKind.JOURNAL_FAILED, f"{self.directory}: {cause(error, self.directory)}; trying again"
            )

    def _worked(self) -> None:
        if self.failing:
            self.failing = False
            self.core.report(EventKind.JOURNAL_RECOVERED, f"{self.directory} can be written again")

    # -- journals of killed processes

    def sought(self) -> None:
        """The directory was searched: the next search is due in a while."""
        self.seek_at = self.core.clock() + SEEK_S

    def seek(self) -> tuple[list[tuple[Orphan, JournalFile]], list[Event]]:
        """Return the journals of processes that are gone, locked; and what happened. Touches nothing of the core."""
        found: list[tuple[Orphan, JournalFile]] = []
        events: list[Event] = []
        settings = self.core.settings
        try:
            paths = sweep(self.directory)
        except OSError as error:
            return [], [Event(EventKind.JOURNAL_FAILED, f"{self.directory} cannot be searched: {error}")]
        for path in paths:
            file: JournalFile | None = None
            reading: Reading | None = None
            try:
                file = JournalFile.take_over(path)
                reading = None if file is None else file.load(settings.namespace, settings.region)
            except Error as error:
                why = cause(error, self.directory)
                events.append(Event(EventKind.JOURNAL_FAILED, f"{path} cannot be taken over now: {why}; left alone"))
            if reading is not None and reading.damage:
                events.append(Event(EventKind.JOURNAL_DAMAGED, f"{path}: {reading.damage}"))
            if file is None:
                continue
            if reading is None or reading.stored is None:
                file.release()
                continue
            events.append(Event(EventKind.JOURNAL_TAKEN_OVER, f"{path}, of a process that is gone"))
            found.append((Orphan(reading.stored, path.name), file))
        return found, events

    def adopt(self, found: list[tuple[Orphan, JournalFile]], events: list[Event]) -> None:
        """The totals found are sent from the next round on. The core is the caller's."""
        self.sought()
        self.orphans += found
        self.core.orphans += [orphan for orphan, _file in found]
        self.core.writer.events += events

    def over(self) -> list[JournalFile]:
        """Return the files that are not needed any more, to be removed; what Redis refuses stays in its journal."""
        core = self.core
        for orphan in core.orphans:
            file = self._find(orphan.recorder) if orphan.recorder is not None else None
            if orphan.empty and file is not None:
                self.empty.append(file)
                self._forget(file)
        core.orphans = [orphan for orphan in core.orphans if not orphan.over]
        return self.empty

    # -- the end

    def close(self) -> None:
        """Nothing is recorded any more: journals that are needed are left for the next client, others removed."""
        self.closed = True
        writer = self.core.writer
        own = self.files.get(self.core.recorder) if self.core.recorder is not None else None
        if own is not None and writer.closed and not writer.outstanding.refusals():
            self._forget(own)
            self.empty.append(own)
        for file in self.over():
            file.remove()
        for file in [*self.files.values(), *(file for _orphan, file in self.orphans)]:
            file.release()
        self.files, self.orphans, self.empty = {}, [], []


def check_directory(directory: Path) -> None:
    """Raises UsageError where no journal can be written; makes nothing that stays."""
    try:
        if directory.exists():
            with tempfile.TemporaryFile(dir=directory):
                return
        parent = next(each for each in directory.parents if each.exists())
        if not parent.is_dir():
            raise NotADirectoryError(f"{parent} is not a directory")
        os.rmdir(tempfile.mkdtemp(dir=parent, prefix=".rc-"))
    except OSError as error:
        raise UsageError(f"journal must be a directory that can be written, got {str(directory)!r}: {error}") from error
