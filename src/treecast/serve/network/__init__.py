"""A network of brokers as one service: a supervisor with a registry and brokers in processes of their own, and one HTTP
door in front of them. `treecast up --brokers N` starts it.
"""
