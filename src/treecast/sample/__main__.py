"""`python -m treecast.sample` prints where the sample lies."""

from treecast.sample import path

if __name__ == "__main__":
    print(path())
