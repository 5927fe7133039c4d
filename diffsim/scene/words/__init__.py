"""The words of a scene: names of classes, numbers and texts, rules and domains, and messages about them."""
