"""Values that must stay bit for bit, because a later operator decides by their last bit."""
