"""`--report`: an HTML page about one conversion, with its passes, rewrites and measured times."""
