"""Schematron rules as subscriptions: which documents break which rule, and where.

`read_rules` reads a file; `Rules.table()` holds its assertions as subscriptions, which any index takes. `Checker` says
where a document breaks them. See docs/guide/schematron.md. Use a Schematron processor instead for XSLT 2.0 rules and
for functions of XSLT.
"""

from treecast.inputs.schematron.assertions import Assertion, Rules, parse_rules, read_rules
from treecast.inputs.schematron.checker import Checker, Failure

__all__ = ["Assertion", "Checker", "Failure", "Rules", "parse_rules", "read_rules"]
