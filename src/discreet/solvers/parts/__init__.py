"""Building blocks that several solvers share: releases and post-processing, no algorithm of their own."""
