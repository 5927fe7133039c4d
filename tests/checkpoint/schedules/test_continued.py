"""A sweep goes on with states that slow tiers hold from before."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.checkpoint import Advance, Binomial, HostStore, Keep, StateLayout, StoreAll, Sweep, Tier
from diffsim.checkpoint.schedules.continued import Continued
from diffsim.checkpoint.schedules.splits import Kept

from ..test_guard import Portable
from ..toy_model import gradient, initial

STEPS = 50
TIERS = (Tier("device", 3), Tier("host", 6))


def start():
    return initial(np.random.default_rng(7))


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 31, STEPS])
def test_found_states_are_used_and_the_bits_stay(steps):
    u, v, a, weights = start()
    model = Portable(u, v, a)
    store = HostStore(StateLayout.of(model.state_arrays()), 6)
    for slot, step in enumerate((10, 20, 30, 40)):
        model.advance(step - 10, step)
        store.write(slot + 1, step, model.state_arrays())
    stored = tuple(Kept(step, slot, 1) for slot, step in store.kept().items())
    schedule = Continued(steps, TIERS, stored)

    stepper, actions = Portable(u, v, a), []
    with Sweep(schedule, stepper, stores=[store], on_action=actions.append) as sweep:
        sweep.forward()
        stepper.u_bar, stepper.v_bar = weights[0].copy(), 2 * weights[1] * stepper.v
        sweep.reverse()
    gradient_of_rest = np.stack([stepper.u_bar, stepper.v_bar, stepper.a_bar])
    assert gradient_of_rest.tobytes() == gradient(StoreAll(steps), start()).tobytes()
    advances = sum(a.stop - a.start for a in actions if isinstance(a, (Advance, Keep)))
    assert advances == schedule.advances
    if steps > 11:
        assert advances < Binomial(steps, 3).advances
