"""Find the rewrites that make the result wrong, by bisection: convert again with fewer rewrites."""
