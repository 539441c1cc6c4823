"""Choose inputs on which the reference (the original model) runs: sizes for its dynamic dimensions,
and values that its operators accept.
"""
