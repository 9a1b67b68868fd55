"""A stand-in for Ollama's server: its API, environment, log and scheduling, with a real llama-server for the answers.

Standard library only, and nothing of llmops: what llmops believes about Ollama is checked against a second opinion.
"""
