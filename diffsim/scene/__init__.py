"""Scenes: a declarative file, the inversion that it describes, and a certificate of its gradient."""

from diffsim.scene.disk.outcome import Outcome as Outcome
from diffsim.scene.scene import Scene as Scene
from diffsim.scene.schema.load import scene_files as scene_files
from diffsim.scene.search.objective import Objective as Objective
from diffsim.scene.setup.field_file import field_on_grid as field_on_grid
from diffsim.scene.words.rules import RuleModel as RuleModel
