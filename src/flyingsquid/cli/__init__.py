"""Command line. Parse, call, show; no statistics live here."""
