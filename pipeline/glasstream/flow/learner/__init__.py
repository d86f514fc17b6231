"""What the learner does with a partition of `events`: admit, predict, draw, learn, take snapshots, save its state."""
