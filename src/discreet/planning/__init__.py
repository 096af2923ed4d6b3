"""Which solver, with which settings, at which cost: decided from public facts, before anything is charged."""
