"""The commands in flight in a lane to the servers of a cluster: which answer belongs to which command."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from redis_counters.drivers.redis_py.errors import no_connection_left, translate
from redis_counters.drivers.redis_py.hash_slots import Address, HashSlots, Redirection, redirection
from redis_counters.errors import CounterError
from redis_counters.protocol.wire.commands import Command, ErrorReply, NoAnswer

MAX_REDIRECTIONS = 5  # of one command; more of them are a cluster that does not know itself
EVERYWHERE = (b"WAIT", b"WAITAOF")  # commands that ask each server about what was written there
ASKING = Command(None, (), (), b"ASKING")

PENDING = object()  # in place of an answer that has not come yet: an answer may be None


class Sent:
    """A command on its way, until it has its answer."""

    __slots__ = ("address", "answer", "command", "parts", "redirections", "text")

    def __init__(self, command: Command, text: bool) -> None:
        self.command = command
        self.text = text
        self.parts: list[Sent] = []  # the same to several servers
        self.address: Address = ("", 0)
        self.redirections = 0
        self.answer: object = PENDING

    def awaits(self) -> Address | None:
        """Return a server whose next answer is to be read before this has its own; None if it has."""
        for part in self.parts or (self,):
            if part.answer is PENDING:
                return part.address
        return None

    def whole_answer(self) -> object:
        """Return its answer: where several servers gave one, what all of them confirm."""
        return least([part.answer for part in self.parts]) if self.parts else self.answer


def least(answers: Sequence[object]) -> object:
    """Return what all servers confirm, from what each does (a number, or two)."""
    bad = [answer for answer in answers if isinstance(answer, (ErrorReply, NoAnswer))]
    if bad:
        return bad[0]
    if all(isinstance(answer, list) for answer in answers):
        return [min(numbers) for numbers in zip(*answers, strict=True)]
    return min(answers)  # type: ignore[type-var]


class InFlight:
    """The commands that were sent in a lane, to which servers, and their answers."""

    def __init__(self, slots: HashSlots) -> None:
        self._slots = slots
        self._sent: dict[Address, deque[Sent]] = {}  # per server, in the order of its answers
        self._order: deque[Sent] = deque()  # in the order in which they are wanted
        self._redirected = False
        self._reported = False  # that it was
        self._lost: dict[Address, CounterError] = {}  # servers that were not reached, or broke off

    def new(self, command: Command, text: bool) -> Sent:
        """The answer to this command is wanted after those to all before."""
        sent = Sent(command, text)
        self._order.append(sent)
        return sent

    def was_redirected(self) -> bool:
        """True once, if a command had to go to another server. Not again: later commands may be redirected, too."""
        if self._reported or not self._redirected:
            return False
        self._reported = True
        return True

    def next_wanted(self) -> Sent:
        """Take the command whose answer is wanted next."""
        return self._order.popleft()

    def check(self) -> None:
        """Raises the error of a server that has broken off, if one has."""
        for error in self._lost.values():
            raise error

    def aim(self, address: Address, sent: Sent) -> bool:
        """The command is to go to this server. False if that is lost: then there will be no answer."""
        sent.address = address
        if address not in self._lost:
            return True
        sent.answer = NoAnswer(self._lost[address])
        return False

    def sending(self, address: Address, sent: Sent) -> None:
        """The server's next answer but those to what was sent there before is to this command."""
        self._sent.setdefault(address, deque()).append(sent)

    def answered(self, address: Address, answer: object) -> tuple[Sent, Redirection] | None:
        """The oldest command at this server has its answer; or return it, and where it has to go instead."""
        sent = self._sent[address].popleft()
        elsewhere = redirection(answer, address)
        if isinstance(answer, ErrorReply) and answer.code == "CLUSTERDOWN":
            self._slots.stale = True
        if elsewhere is None or sent.redirections >= MAX_REDIRECTIONS:
            sent.answer = answer
            return None
        sent.redirections += 1
        self._redirected = True
        return sent, elsewhere

    def lose(self, address: Address, error: BaseException) -> None:
        """The server's commands have no answer, and nothing more is sent to it in this lane."""
        ours = translate(error)
        assert ours is not None
        if ours is not error:
            ours.__cause__ = error
        self._lost[address] = ours
        self._slots.stale = self._slots.stale or not no_connection_left(ours)
        for sent in self._sent.pop(address, ()):
            sent.answer = NoAnswer(ours)
