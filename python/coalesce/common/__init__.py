"""Code that all other packages use: exceptions, checks of arguments, progress bars, and so on."""
