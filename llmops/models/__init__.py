"""One file per model format, one function read_x(host, path) -> ModelSpec each."""
