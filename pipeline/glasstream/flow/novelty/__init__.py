"""What the novelty detector does with a partition of `events`: keep windows, ask for maps, score."""
