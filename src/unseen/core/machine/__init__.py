"""What depends on the machine: compiled loops, and the memory of the process."""
