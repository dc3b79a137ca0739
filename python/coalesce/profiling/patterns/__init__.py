"""What the lanes of a warp access: example warps, runs of lanes, kinds of patterns."""
