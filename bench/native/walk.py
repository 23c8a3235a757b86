"""The floor of a checkpoint where no C compiler is: lstat and readdir of everything."""

import os

FOLDERS = ["."]
FILES = 0
while FOLDERS:
    with os.scandir(FOLDERS.pop()) as entries:
        for entry in entries:
            if entry.name == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                FOLDERS.append(entry.path)
            else:
                os.lstat(entry.path)
                FILES += 1
os.write(1, f"{FILES}\n".encode())
