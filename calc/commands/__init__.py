"""The `calc` commands, one module each."""
