"""What is kept of earlier rows: reservoirs, grids, and storage trees for conditional removal."""
