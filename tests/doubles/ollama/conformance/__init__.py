"""What llmops relies on in Ollama, as checks that any Ollama can be asked: the stand-in and a real one alike."""
