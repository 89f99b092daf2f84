"""Simulates hours of an installation in a moment: the real code, one actor at a time, on a simulated clock.

A seed decides everything: what happens in which order, and which calls fail, take long or end their process. So the
same seed gives the same run, byte for byte.

`python -m cdclake_devkit.simulate --help` and `docs/simulator.md` say more.
"""
