"""Parts that every other one may use, and that know nothing of fields: checks, messages, memory, the operating system."""
