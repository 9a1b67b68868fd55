"""The same tests on every machine.

Property tests draw the same examples every time and are not timed: what fails fails again, busy machine or not;
`LLMOPS_HYPOTHESIS=explore` draws others. Signals do what they do in a terminal: nohup and a shell's background jobs
start programs that ignore some, and those that tests start would too.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.load_profile(os.environ.get("LLMOPS_HYPOTHESIS", "repeatable"))
