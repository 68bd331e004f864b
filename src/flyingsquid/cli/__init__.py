"""Command-line interface. It contains no statistics."""
