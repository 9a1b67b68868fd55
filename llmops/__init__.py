"""Configure, verify and diagnose self-hosted LLM servers."""

__version__ = "0.1.0"
