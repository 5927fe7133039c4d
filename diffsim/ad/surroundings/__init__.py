"""Values that functions read from outside."""
