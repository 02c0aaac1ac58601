"""The posterior over supports, by enumeration of all supports or by chains over them."""
