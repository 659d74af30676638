"""New tensors of a block, under names that no tensor of the block has."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb


def tensor_names(block: pb.BlockDesc) -> set[str]:
    """Return the names of the tensors that a block describes."""
    return {tensor.name for tensor in block.tensors}


def add_tensor(block: pb.BlockDesc, like: pb.TensorDesc, taken: set[str] | None = None) -> str:
    """Describe a new tensor in a block, and return its name: that of `like`, with `_` behind it while it is taken.

    Parameters
    ----------
    block : BlockDesc
        Edited in place.
    like : TensorDesc
        The description that is copied, without `gradient_of`.
    taken : set of str, optional
        The result of `tensor_names` for a caller that adds many tensors; the new name is added to it.
    """
    taken = tensor_names(block) if taken is None else taken
    name = like.name
    while name in taken:
        name += "_"
    taken.add(name)
    tensor = block.tensors.add()
    tensor.CopyFrom(like)
    tensor.name, tensor.gradient_of = name, ""
    return name
