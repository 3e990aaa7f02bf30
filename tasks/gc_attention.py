"""Leftovers of attention models: where a training stood that has ended, weights that never got a card."""

from __future__ import annotations

from storage import layout
from storage.attention_models import attention_card
from tasks.gc_find import Find, Found, View


def in_attention(view: View, name: str) -> Found:
    """Yield what of the attention models ``name`` no training goes on from and no benchmark decodes with."""
    folder = layout.attention_dir(name)
    if busy := view.busy(folder, layout.attention_lease(name)):
        yield busy
        return
    for n in filter(None, map(layout.size_of, view.store.folders(folder))):
        path, training = layout.attention_size_dir(name, n), layout.attention_training(name, n)
        files = view.store.files(path)
        standing = [file for file in files if file.path == training]
        if attention_card(view.store, name, n) is None:
            if view.old(files) and not standing:
                size = sum(file.size for file in files)
                yield Find("half-written attention model", path, len(files), size, "its writer was stopped")
        elif view.old(standing):
            yield Find("ended training", training, 1, standing[0].size, "its model is finished")
