"""iSAGE: incremental Shapley additive global importance (paper 002)."""
