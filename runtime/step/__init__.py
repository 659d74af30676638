"""One step of a bound block, for any engine: the memory of its tensors, their lifetimes, and the order of its ops.

aliases    the tensors of a block that share bytes: views, and outputs written in place
clock      phases, the units of a step, the uses of their values, and lifetimes
written_over the law of writing over, for ops and for groups of compiled code
in_place   the outputs that may be written over operands, and those that are, by the law
scratch    memory that kernels overwrite while their op runs
target     the properties of an engine that planning depends on: scratch, and in-place pairs of its kernels
buffers    the buffers of a step that is computed op by op
places     the memory of a step: what is shared, and the offsets of the buffers
effects    the effects of ops besides their tensors, and their consequences
hazards    dependencies between ops, from the bytes that they touch and from their effects
arithmetic the operations of ops, and whether an op is pointwise
phases     ops that wait for none of each other, and their shares by thread
"""

from runtime.step.aliases import Aliases as Aliases
from runtime.step.aliases import is_view as is_view
from runtime.step.aliases import made_outside as made_outside
from runtime.step.aliases import views_of as views_of
from runtime.step.buffers import buffers_of as buffers_of
from runtime.step.buffers import spilled_of as spilled_of
from runtime.step.clock import END as END
from runtime.step.clock import FED as FED
from runtime.step.clock import UNREAD_FEED as UNREAD_FEED
from runtime.step.clock import Unit as Unit
from runtime.step.clock import Uses as Uses
from runtime.step.clock import lifetimes_of as lifetimes_of
from runtime.step.effects import effects_of as effects_of
from runtime.step.effects import is_observable as is_observable
from runtime.step.effects import is_transfer as is_transfer
from runtime.step.effects import ordered_by_effects as ordered_by_effects
from runtime.step.effects import runs_once as runs_once
from runtime.step.effects import spills as spills
from runtime.step.hazards import Touched as Touched
from runtime.step.hazards import dependencies as dependencies
from runtime.step.in_place import aliases_of as aliases_of
from runtime.step.in_place import possible_pairs as possible_pairs
from runtime.step.places import Places as Places
from runtime.step.places import places_of as places_of
from runtime.step.places import places_within as places_within
from runtime.step.scratch import scratch_of as scratch_of
from runtime.step.target import Target as Target
from runtime.step.written_over import chosen as chosen
from runtime.step.written_over import leaves_no_copy as leaves_no_copy
from runtime.step.written_over import written_over as written_over
