"""Areas of convolutional networks as programs: steps over images in a blocked layout."""
