import sys
from pathlib import Path

for folder in (".", "model"):  # so that every test finds `harness` and `everything`
    sys.path.insert(0, str(Path(__file__).parent / folder))
