"""The `onboard` commands, one module each."""
