"""The parts of a conversion: the plan, the requested model, one attempt, and the verdict."""
