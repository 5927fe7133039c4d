"""The checkpointing schedules, each of which yields actions."""
