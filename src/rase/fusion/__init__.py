"""The fusion centre: takes in shuffled batches, estimates rounds, answers subscribers."""
