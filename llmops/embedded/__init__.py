"""A llama-server without a compiler: llama.cpp's own HTTP server from the xllamacpp wheel, behind llama-server's flags.

It stands alone: llmops starts it as a child process, exactly as it starts the binary, and shares no code with it.
"""
