"""Mapping of the messages of any topic to events: formats, fields, types and packing."""
