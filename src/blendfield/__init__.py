"""Learning and inference, blended, in random fields."""
