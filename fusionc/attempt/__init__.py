"""A conversion as data: the plan, the model that was asked for, one attempt, and the verdict."""
