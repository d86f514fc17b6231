"""The tools of the person on call: topics and rights, state, dead letters, replay, the doctor."""
