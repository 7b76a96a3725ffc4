"""What the gates are worth and where a port diverges: faults, floor, first divergence, injection."""
