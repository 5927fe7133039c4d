"""Scenes: from a declarative file to an answer, with its certificate."""

from diffsim.scene.load import scene_files as scene_files
from diffsim.scene.outcome import Outcome as Outcome
from diffsim.scene.scene import Scene as Scene
