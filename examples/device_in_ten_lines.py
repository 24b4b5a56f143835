"""What leaves a device: one noisy place on a public grid. Needs no NumPy; runs on small machines.

The agent (`rase device run`) does this within a budget, seals the place in two envelopes and sends
it; here it is only printed.
"""

from rase.domain import Precision, Range
from rase.kernels.entropy import SecureEntropy
from rase.laws.registry import randomizer_named

power = Range(0, 3000)
device = randomizer_named("budget-aware", 1.0, domain=power, precision=Precision(beta=0.5, rho=0.9))
reading = 412.0
place = device.draw_one(reading, SecureEntropy())  # once for each reading: never draw again
noisy = power.low + place * (power.high - power.low) / power.steps
print(f"measured {reading:g} W, reported place {place} of {power.steps}: {noisy:.0f} W")
