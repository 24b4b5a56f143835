"""What all pages share, whoever serves them: colours and parts, numbers and promises in words.

Pure Python without NumPy, because the device agent imports it.
"""
