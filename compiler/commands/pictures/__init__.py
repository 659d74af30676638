"""Self-contained pictures: SVG, alone or in a page.

memory     the arena over time
op_page    the ops of an entry by scopes that can be opened and closed
op_layers  the ops of an entry as layers: readers below the ops that they read from
marks      colours of stages, and text escaped for HTML
"""
