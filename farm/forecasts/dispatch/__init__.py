"""Estimates of when a waiting job is dispatched: time to next builder + predecessor lead time.

``launchpad_formula.estimate_queue`` makes the table of a ``FarmView``'s queue in one pass, from
which ``job_estimate.estimate_at`` reads one job's with all of its arithmetic. A scheduler that
keeps its queue as columns makes the table (``QueueEstimates``) directly: it estimates the head of
a platform's queue, and a job submitted now. Rule sets (``launchpad_formula.RULES``): ``page``,
``launchpad-2010``, ``launchpad``, ``farm``.

How the formula is applied beyond Launchpad's farm:

- *Slots.* A slot counts as a builder: pools and free builders count slots, the next builder is the
  next slot. Contention (a job slows its neighbours) is ignored.
- *Any policy, fair share.* "Ahead" is the place in dispatch order: by score unless the view's
  ``order`` says otherwise. For a fair-share tree this is the order if no more jobs arrive and
  no job changes its length: optimistic for a user whose rivals keep submitting, pessimistic for
  a new user, whose jobs the tree lets overtake.
- *Several processors per builder.* Launchpad's rules count such a builder once in each of its
  pools and ignore jobs of a sibling processor ahead (too optimistic). ``farm`` counts them: two
  platforms compete if some usable builder can run both.

Pessimistic by construction, under all rules: groups are added up although they run in parallel
if their builders differ; a group smaller than its pool is divided by its own size, as if its
jobs did not all start together; the head job's wait is added even if another builder is free for
the job of interest.
"""
