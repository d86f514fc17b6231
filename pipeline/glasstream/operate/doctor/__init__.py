"""Checks of a deployment, one module for each part of it. Each check returns findings."""
