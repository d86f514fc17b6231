"""iPDP: incremental partial dependence, as effect curves and their importance (paper 001)."""
