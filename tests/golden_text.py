"""Text that must come out as it was kept; ``RAILWEAVE_UPDATE_GOLDEN=1`` keeps it anew."""

import os
from pathlib import Path


def is_as_kept(text: str, file: Path) -> bool:
    """Compare text with the file that keeps it, blanks at the ends of lines aside."""
    plain = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    if os.environ.get("RAILWEAVE_UPDATE_GOLDEN"):
        file.write_text(plain, encoding="utf-8")
    assert plain == file.read_text(encoding="utf-8")
    return True
