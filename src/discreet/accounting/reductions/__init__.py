"""Events that have the guarantee of a simpler event, and the theorems that say so."""
