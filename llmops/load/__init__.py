"""Timed requests against a running engine: one, two at once, and many users in a closed loop; and the swap check."""

from __future__ import annotations

from llmops.load.pair import Overlap, TwoRequests, two_requests
from llmops.load.prompts import random_prompt
from llmops.load.stream import stream_one, warm_up
from llmops.load.swap import SwapCounters, SwapTraffic, swap_counters, swap_traffic
from llmops.load.timings import RequestTiming
from llmops.load.users import LONGEST_GAP_SECONDS, LoadResult, users_closed_loop

__all__ = [
    "LONGEST_GAP_SECONDS",
    "LoadResult",
    "Overlap",
    "RequestTiming",
    "SwapCounters",
    "SwapTraffic",
    "TwoRequests",
    "random_prompt",
    "stream_one",
    "swap_counters",
    "swap_traffic",
    "two_requests",
    "users_closed_loop",
    "warm_up",
]
