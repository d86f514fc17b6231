"""What is looked at when a deployment is not well: each module one part of it, each check a few findings."""
