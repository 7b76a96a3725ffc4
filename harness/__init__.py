"""The engine: observes, compares, judges. It knows tasks and no model."""
