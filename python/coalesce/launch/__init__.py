"""A kernel and its launch: arguments checked, run on a GPU or on the simulator, recorded."""
