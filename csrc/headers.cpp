// The target coalesce_headers, whose precompiled header others use, needs a file.
