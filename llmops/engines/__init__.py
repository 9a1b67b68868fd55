"""One file per engine behind one small protocol."""
