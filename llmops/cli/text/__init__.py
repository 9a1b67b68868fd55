"""Results as text for people: at most 80 columns, ASCII rules, colour only where the terminal takes it."""
