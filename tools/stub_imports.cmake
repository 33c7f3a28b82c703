# The stubs are written for a module that lies beside them; in the package it lies in treecast.
file(READ "${STUB}" text)
string(REPLACE "\nimport _native\n" "\nfrom treecast import _native\n" text "${text}")
string(REPLACE "\nfrom _native import testing" "\nfrom . import testing" text "${text}")
file(WRITE "${STUB}" "${text}")
