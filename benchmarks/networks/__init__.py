"""Networks of many families, with random weights, written in short form for make_unseen.py."""
