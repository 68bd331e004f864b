"""Local studio: write rules in the browser and see the labels change. Needs the extra ``[studio]``.

The engine (``flyingsquid.studio.workspace``) works without a server; ``flyingsquid studio`` serves it on
127.0.0.1. Nothing is imported here, because the process that applies rules should start quickly.
"""
