"""What leaves a device: one noisy place on a public grid. Needs no NumPy; runs on small machines.

The agent (`rase device run`) does this within a budget, seals the place in two envelopes and sends
it; here it is only printed.
"""

from rase.kernels.entropy import SecureEntropy
from rase.randomize.pure import DeviceRandomizer
from rase.stream import Precision, ValueRange

power = ValueRange(0, 3000)
device = DeviceRandomizer("budget-aware", 1.0, power, Precision(beta=0.5, rho=0.9))
reading = 412.0
place = device.place(reading, SecureEntropy())  # once for each reading: never draw again
noisy = power.low + place * (power.high - power.low) / power.steps
print(f"measured {reading:g} W, reported place {place} of {power.steps}: {noisy:.0f} W")
