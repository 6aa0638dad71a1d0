"""Do one part of the work: count the words of this folder's files that begin with some letters."""

import os
import pathlib

part = int(os.environ["PART"])
words = [w for path in sorted(pathlib.Path().glob("*.py")) for w in path.read_text().split()]
print(f"part {part} has {len(words[part::3])} words")
