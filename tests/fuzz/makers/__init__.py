"""Makers of calls, by family. Importing this fills the table."""

from fuzz.makers import arrays as arrays
from fuzz.makers import elements as elements
from fuzz.makers import images as images
from fuzz.makers import layers as layers
from fuzz.makers import linear as linear
from fuzz.makers import losses as losses
from fuzz.makers import numbers as numbers
from fuzz.makers import reductions as reductions
from fuzz.makers import sequences as sequences
from fuzz.makers import updates as updates
from fuzz.makers.table import MAKERS as MAKERS
from fuzz.makers.table import NOT_DRAWN as NOT_DRAWN
