"""What provisioning algorithms decide, in plain numbers; ``farm.sim.fast`` compiles it, too.

``look`` has the fields of a ``PoolSnapshot``, ``options`` those of the algorithm.
A plan is (builders desired, to be started, to be stopped); what is remembered follows.
"""
