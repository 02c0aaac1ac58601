"""The posterior over supports: every one of them, or chains over many."""
