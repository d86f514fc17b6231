"""What the intake makes of messages of any topic: documents, their fields, and events."""
