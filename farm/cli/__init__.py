"""The composition root: parse the command line, build the objects, hand them over."""
