"""The main job: its description, its run, its failures in a sentence."""
