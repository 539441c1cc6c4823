"""Load and save models. External weights stay in their files, and files are never half written."""
