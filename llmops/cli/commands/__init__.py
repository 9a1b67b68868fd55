"""One file per command; each has one `command`, imported only when it runs."""
