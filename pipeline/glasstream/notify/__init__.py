"""What is posted to a webhook for each incident. `glasstream.stages.notify` posts it."""
