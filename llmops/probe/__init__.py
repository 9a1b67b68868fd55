"""One file per source of the machine, one function read_x(host) each."""
