"""Consumers of events: logs, progress, and more to come."""
