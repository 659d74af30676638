"""Self-contained pictures: SVG, alone or in a page, and PNG.

memory      the arena over time
op_page     the ops of an entry by scopes that can be opened and closed
op_boxes    the ops of an entry as boxes in layers: readers below the ops that they read from
op_layers   these layers as SVG
op_picture  these layers as PNG, drawn by matplotlib
marks       colours of stages, and text escaped for HTML
"""
