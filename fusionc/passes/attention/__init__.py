"""Attention or a rotary embedding that is written out as several operators becomes one operator."""
