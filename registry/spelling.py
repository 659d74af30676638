"""The closest known name to one that is not known."""

from prograd_proto.spelling import closest as closest
