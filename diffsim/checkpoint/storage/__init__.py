"""Where states are kept: host memory, disk; smaller, checked, found again."""
