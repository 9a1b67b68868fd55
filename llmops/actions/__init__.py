"""One file per verb: what it means. No click, no printing."""
