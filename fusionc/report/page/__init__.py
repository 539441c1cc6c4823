"""`--report`: a page for people on one conversion: what ran, what each rewrite did, and what that
gained.
"""
