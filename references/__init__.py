"""Thin wrappers over the published packages, one module per family. What they compute is what a port is measured by."""
