"""What functions read from around them."""
