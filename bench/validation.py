"""Validity by a DTD: CPU time for documents of about 5 KB, beside lxml, which parses and validates them.

Ours is the check alone: in a broker the document has been read by then, as every document is.
"""

from __future__ import annotations

from importlib import resources
from io import StringIO
from statistics import median

from lxml import etree

from bench.measure import clock, finish, options_of, run
from treecast.workload import DocumentSettings, Schema, generate_documents
from treecast.workload.validator import Validator


def main(arguments: list[str]) -> int:
    options, report = options_of("validation", __doc__.partition("\n")[0], arguments)
    count, repeats = (100, 3) if options.quick else (500, 7)
    for name in ("news", "records"):
        text = resources.files("treecast.workload").joinpath(f"{name}.dtd").read_text("utf-8")
        documents = list(generate_documents(Schema.shipped(name), count, DocumentSettings(bytes_target=5_000), seed=1))
        validator, dtd = Validator.from_text(text), etree.DTD(StringIO(text))

        def ours(documents: list[bytes] = documents, validator: Validator = validator) -> None:
            for document in documents:
                validator.check(document)

        def theirs(documents: list[bytes] = documents, dtd: etree.DTD = dtd) -> None:
            for document in documents:
                assert dtd.validate(etree.fromstring(document))

        report.note(f"{name}: documents of {sum(map(len, documents)) // count} bytes")
        pairs = [(clock(ours), clock(theirs)) for _ in range(repeats)]
        check, peer = median(one.cpu for one, _ in pairs), median(two.cpu for _, two in pairs)
        report.add(
            f"check {name}",
            f"{check / count * 1e6:.0f}",
            "µs/doc",
            lxml=f"{peer / count * 1e6:.0f}",
            cpu=f"{check / peer:.2f}x",
        )
    return finish(options, report)


if __name__ == "__main__":
    run(main)
