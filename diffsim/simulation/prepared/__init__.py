"""An equation compiled for its sources and receivers, with checked inputs."""
