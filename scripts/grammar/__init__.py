"""Check the grammar of what people read: pages, docstrings of public names, help of commands."""
