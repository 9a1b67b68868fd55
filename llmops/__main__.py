"""`python -m llmops` is the same as `llmops`."""

from llmops.cli import main

if __name__ == "__main__":
    main()
