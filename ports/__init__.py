"""Ports under test, one module per family, mirroring `references/`. They import nothing of the reference."""
