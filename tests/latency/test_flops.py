"""Counted matrix products against the formula of the architecture."""

import numpy as np

from tests.language_models import tiny_ouro
from tests.latency.replay import letters
from tests.looped import Spiral
from trajdiag.latency.flops import count_flops
from trajdiag.latency.full_depth import run_full_depth
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live
from trajdiag.models.base import Compacts

