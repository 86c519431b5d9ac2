"""Makes the compiled loop: translates the kernel's Python into C, and has a C compiler compile it.

Start with ``program``, which follows the calls from the kernel's entries. ``functions`` translates
statements, ``expressions`` what they compute, ``kinds`` has the types, ``python_in_c.h`` Python's
arithmetic, and ``building`` runs the compiler.

The kernel is written in a small part of Python: numbers, records of NumPy arrays, tuples, loops,
and functions that call each other. Types follow from the annotations of the entries' arguments.
What the translator does not know is an error that names the file and the line.
"""
