"""`python -m treecast.sample` prints the directory of the sample."""

from treecast.sample import path

if __name__ == "__main__":
    print(path())
