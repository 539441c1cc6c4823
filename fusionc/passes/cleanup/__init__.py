"""What is left for the others is what the model really computes."""
