"""Listing the tree: orders, pages, and that listing changes nothing."""

from __future__ import annotations


def names(rows):
    """Return the children's own keys."""
    return [row.path[-1] for row in rows]


def fill(yard):
    """Three builds: c runs two, a one, b nothing; all wait; d only idles; e only runs."""
    for n, (name, path) in enumerate((("c0", "c"), ("c1", "c"), ("a0", "a/x"))):
        yard.wait(name, path)
        assert yard.take(f"s{n}", n) == name
    for name in ("c2", "c3", "c4", "b0", "b1", "b2", "a1", "a2", "a3"):
        yard.wait(name, "a/x" if name[0] == "a" else name[0])
    yard.wait("d", "d", priority=-2000)
    yard.wait("e", "e", priority=-2000)
    assert [yard.take("t", 5), yard.take("u", 6)] == ["d", "e"]
    yard.end("t", 7)


def test_children_by_filter(yard):
    """Queued: in order of dispatch; active and all: by key."""
    fill(yard)
    listing = yard.queue.listing
    assert names(listing.children((), "queued")) == ["b", "a", "c"]
    assert names(listing.children((), "active")) == ["a", "b", "c", "e"]
    assert names(listing.children((), "all")) == ["a", "b", "c", "d", "e"]
    assert listing.children(("unknown",)) == []


def test_a_child_has_its_counts(yard):
    """Counts are over the subtree, own ones are named so."""
    fill(yard)
    a, _, c, d, e = yard.queue.listing.children()
    assert (a.waiting, a.own_waiting, a.children, a.waiting_children) == (3, 0, 1, 1)
    assert (c.waiting, c.own_waiting, c.executing, c.priority) == (3, 3, 2, 0)
    assert (d.idle, d.free, d.executing, d.priority, d.completed_at) == (1, 0, 0, None, 7.0)
    assert (e.executing, e.started_at, a.active_children) == (1, 6.0, 1)


def test_a_listing_may_be_cut_off(yard):
    """The first rows are the same ones."""
    for n in range(20):
        yard.wait(f"j{n}", f"n{n:02}", priority=n % 7)
    listing = yard.queue.listing
    for show in ("queued", "all"):
        assert listing.children((), show, limit=9) == listing.children((), show)[:9]


def test_queue_order_is_the_order_of_leaving(yard):
    """The listed queue of a node and the dispatches from it agree."""
    for n in range(20):
        yard.wait(f"j{n}", "q", priority=(n * 7) % 10)
    listed = [state.job.id for state in yard.queue.listing.queue(("q",))]
    assert listed == yard.take_all(20)


def test_listing_changes_nothing(yard):
    """Half a listing, then a dispatch: as if there had been no listing."""
    fill(yard)
    ahead = yard.queue.in_order()
    next(ahead)
    next(ahead)
    memory = yard.queue.memory()
    yard.queue.listing.children((), "queued", limit=1)
    assert yard.queue.memory() == memory
    assert yard.take_all(2) == ["b0", "a1"]


def test_jobs_of_an_invocation(yard):
    """What runs below a node, including jobs that share an execution."""
    fill(yard)
    yard.follow("shared", "a0", "c")
    listing = yard.queue.listing
    assert [s.job.id for s in listing.running_in(("a",))] == ["a0"]
    assert [s.job.id for s in listing.running_in(("c",))] == ["c0", "c1", "shared"]
    assert listing.running_in(("z",)) == []
