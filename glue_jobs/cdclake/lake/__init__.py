"""The work on rows: Spark distributes it; Arrow reads, merges and writes."""

import os

# Before pyarrow is imported, which reads it once. Its own default, mimalloc, makes changes slower and larger in memory,
# see docs/performance.md. https://arrow.apache.org/docs/cpp/env_vars.html
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
