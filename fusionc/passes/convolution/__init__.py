"""Conv, ConvTranspose and pools: what is around them goes into them; several become one."""
