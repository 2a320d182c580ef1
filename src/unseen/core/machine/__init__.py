"""What depends on the machine: compiled loops, the allocator of memory."""
