"""Queueing policies: which waiting job goes next. One policy a file, a registry beside them."""
