"""Every error that llmops raises on purpose, and the exit code of each.

LlmopsError (1)
├── UsageError (2)
├── ProblemsFound (3)          ConflictingSetting
├── DoesNotFit (4)
├── RolledBack (5)
├── RollbackFailed (6)
├── Unsupported (7)            NotInstalled, TooOld, Misconfigured
├── Locked (8)
├── UnreadableInput (9)        UnknownArchitecture
├── NoPermission (10)
└── EngineNotAnswering (11)
Interrupted (129, 130, 143)
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_BUG = 1


class LlmopsError(Exception):
    """What went wrong and where (`message`), and what to do next (`hint`)."""

    exit_code = EXIT_BUG
    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LlmopsError):
    """The command line or the configuration file asks for something that cannot be asked for."""

    exit_code = 2
    code = "usage"


class ProblemsFound(LlmopsError):
    """A check failed or a finding was made; nothing was changed."""

    exit_code = 3
    code = "problems_found"


class ConflictingSetting(ProblemsFound):
    """A file that llmops does not own sets a value that the plan sets too."""

    code = "conflicting_setting"


class DoesNotFit(LlmopsError):
    """No plan satisfies the floors; the hint names the smallest change that would."""

    exit_code = 4
    code = "does_not_fit"


class RolledBack(LlmopsError):
    """A change failed and the machine is as it was before."""

    exit_code = 5
    code = "rolled_back"


class RollbackFailed(LlmopsError):
    """A change failed and so did putting the old state back; the hint says where the old state is kept."""

    exit_code = 6
    code = "rollback_failed"


class Unsupported(LlmopsError):
    """Something that the job needs is not here or too old."""

    exit_code = 7
    code = "unsupported"


class NotInstalled(Unsupported):
    """The engine, systemd or a tool is absent."""

    code = "not_installed"


class TooOld(Unsupported):
    """Found, but older than what llmops can configure."""

    code = "too_old"


class Misconfigured(Unsupported):
    """Found, but in a state that llmops must not touch by itself."""

    code = "misconfigured"


class Locked(LlmopsError):
    """Another llmops is changing this machine."""

    exit_code = 8
    code = "locked"


class UnreadableInput(LlmopsError):
    """A file or an answer is missing, truncated, hostile or invalid."""

    exit_code = 9
    code = "unreadable_input"


class UnknownArchitecture(UnreadableInput):
    """A model whose cache rule llmops does not know; it refuses to guess."""

    code = "unknown_architecture"


class NoPermission(LlmopsError):
    """The operating system refused; the hint says which rights are needed."""

    exit_code = 10
    code = "no_permission"


class EngineNotAnswering(LlmopsError):
    """The engine does not answer, or answers something that its protocol does not allow."""

    exit_code = 11
    code = "engine_not_answering"


class Interrupted(BaseException):
    """A signal arrived; everything begun was undone first.

    Like KeyboardInterrupt no Exception: whoever notes an error and goes on must not go on after a signal.
    """

    code = "interrupted"

    def __init__(self, signal_number: int, *, hint: str | None = None) -> None:
        self.message = f"stopped by signal {signal_number}"
        super().__init__(self.message)
        self.hint = hint
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
