"""How each kind of file becomes a view, one module a kind."""
