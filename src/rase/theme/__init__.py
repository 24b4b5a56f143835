"""What all pages share: colours, templates, numbers and promises in words.

Pure Python without NumPy, because the device agent imports it.
"""
