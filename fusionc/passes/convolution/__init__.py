"""Conv, ConvTranspose and pools take in the nodes around them, and several become one."""
