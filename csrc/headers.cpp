// An empty source file, because the target coalesce_headers needs one. Other targets use its
// precompiled header.
