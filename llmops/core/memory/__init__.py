"""How much memory a plan takes, by engine family; every part exact, measured, or a range with its reason."""
