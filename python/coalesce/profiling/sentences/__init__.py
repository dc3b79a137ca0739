"""What a profile says about a row, and about the whole kernel."""
