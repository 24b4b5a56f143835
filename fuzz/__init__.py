"""What every parser of foreign bytes does with any bytes: targets, a kept corpus, two ways to run.

`python -m fuzz` lets atheris look for inputs with the coverage of the code as its guide; the test
run sends the kept corpus and seeded mutations of it through the same targets, without atheris.
"""
