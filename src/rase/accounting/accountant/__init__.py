"""The accountant: everything that states what shuffled reports give away asks here.

A round has a *profile*, delta at every epsilon, proven from above. A profile makes a *pair* of laws
that the round is no easier to tell apart than; pairs compose, also where later rounds depend on
what earlier ones released, and answer every question: epsilon at a delta, delta at an epsilon, how
often the best guess is right, how seldom an observer becomes surer than some certainty. Ask
`rounds.shuffled_pair` for the pair of a round, `calibrate.calibrate` for the randomizer that keeps
a promise, `claims.claims` for the table that a campaign signs.
"""
