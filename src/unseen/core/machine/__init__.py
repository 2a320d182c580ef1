"""What depends on the machine: compiled loops."""
