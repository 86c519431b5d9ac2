"""The updatable heap against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.core.queues.heap import HeapPreview, UpdatableHeap

moves = st.lists(st.tuples(st.integers(0, 15), st.none() | st.integers(0, 9)), max_size=200)


def apply(heap, model, steps):
    """Put (or, without a key, discard) items in a heap and in a plain dict."""
    for item, key in steps:
        if key is None:
            heap.discard(item)
            model.pop(item, None)
        else:
            heap.put(item, (key, item))
            model[item] = (key, item)


def order(model):
    """Return the model's items by key."""
    return [item for _, item in sorted(model.values())]


@given(moves)
def test_it_is_a_sorted_map(steps):
    """After any moves: same items, same first, same walk, few void entries."""
    heap, model = UpdatableHeap(), {}
    for n in range(len(steps)):
        apply(heap, model, steps[n : n + 1])
        assert heap.first() == next(iter(order(model)), None)
        assert len(heap) == len(model)
        assert len(heap._entries) <= 2 * len(heap) + 33
    assert [item for _, item in heap.walk()] == order(model)
    assert all(heap.key(item) == key for item, key in model.items())


@given(moves, moves)
def test_a_preview_is_the_heap_after_the_moves(before, later):
    """A preview answers as the heap would, and the heap stays as it is."""
    heap, model = UpdatableHeap(), {}
    apply(heap, model, before)
    kept = order(model)
    preview = HeapPreview(heap)
    for n in range(len(later)):
        apply(preview, model, later[n : n + 1])
        assert preview.first() == next(iter(order(model)), None)
    assert [item for _, item in heap.walk()] == kept
