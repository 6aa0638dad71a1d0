"""Placement: which agents a request for slots gets.

`core.schedule` places the queue on the agents of a pool. `core.provision` places it on the machines that the pool has
and on those that it would rent. Both use these rules, so a machine is rented only if the scheduler will use it.

- agent: a machine with slots. A rented machine has its agent as soon as it has joined.
- unit: a slot, or a container without slots. `SlotFleet` counts the first, `AuxFleet` the second.
- fit: the agents chosen for a request, each with the slots taken there.
- gang: a fit over several agents. The agents are wholly free and of one place.
- reservation: agents that a request gets when certain running allocations have left.
"""
