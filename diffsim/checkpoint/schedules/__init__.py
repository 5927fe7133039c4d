"""Ways to keep states: each a plan of actions."""
