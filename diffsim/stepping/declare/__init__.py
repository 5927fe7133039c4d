"""What a user declares: an equation, its fields, and points between cells."""
