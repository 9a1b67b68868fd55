"""Property tests draw the same examples every time and are not timed: what fails fails again, busy machine or not.

`LLMOPS_HYPOTHESIS=explore` draws others.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("LLMOPS_HYPOTHESIS", "repeatable"))
