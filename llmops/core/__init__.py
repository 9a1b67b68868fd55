"""The pure core: what a machine is in, what its files should say out. No I/O, no clock, no environment."""
