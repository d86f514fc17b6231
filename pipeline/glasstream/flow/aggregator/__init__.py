"""What the aggregator does with a partition of `contributions`: order, smooth, watch, publish."""
