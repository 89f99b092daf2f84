"""Pure rules and records: no I/O, no clock, standard library only, Python 3.9."""
