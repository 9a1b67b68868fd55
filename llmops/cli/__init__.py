"""One file per command: flags in, Result out. Only here is the local host built."""
