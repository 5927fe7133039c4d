"""Every benchmark, one table: `python scripts/bench/all.py [--quick] [--out FILE.json]`."""

import acoustic
import compile_time
import gradient
import heat
from common import main

if __name__ == "__main__":
    main(acoustic.BENCHMARK, gradient.BENCHMARK, heat.BENCHMARK, compile_time.BENCHMARK)
