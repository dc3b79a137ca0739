"""Shows reports as text in the console, and as HTML in notebooks."""
