"""Pictures that need nothing but themselves: SVG, alone or in a page.

memory     the arena over time
op_page    the ops of an entry by scopes that open and close
op_layers  the ops of an entry as layers: what reads what stands below it
marks      colours of stages, and words with nothing in them that is a mark of the language
"""
