"""Runs under vLLM's own interpreter: makes one engine after another as its server would, all in one process.

Starting a server costs 25 to 80 s, nearly all of it imports; an engine alone costs a few seconds, prints the same
lines and refuses with the same words. The standard input is a list of {model, ...options}; a mark with its number comes
before the log of each.
"""

import json
import os
import sys

MARK = "=== start"


def main() -> None:
    """One log per entry, each after its mark."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    for number, options in enumerate(json.load(sys.stdin)):
        print(f"\n{MARK} {number}", flush=True)
        wanted = EngineArgs(enforce_eager=True, distributed_executor_backend="uni", **options)
        try:
            # The defaults depend on who asks: a server runs fewer requests at once than a script.
            LLMEngine.from_engine_args(wanted, usage_context=UsageContext.OPENAI_API_SERVER)
        except ValueError as refused:
            print(f"{type(refused).__name__}: {refused}", flush=True)


if __name__ == "__main__":
    main()
