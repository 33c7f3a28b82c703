"""Random invoices for the rules of examples/schematron: right most of the time, wrong in one of many ways otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

INVOICE = '<inv:Invoice xmlns:inv="urn:example:invoice" xmlns:agg="urn:example:aggregate" xmlns="urn:example:value">'


@dataclass
class InvoiceDrawer:
    """`wrong` is how often each single thing is not as it should be."""

    random: Random
    wrong: float = 0.08

    def slip(self) -> bool:
        return self.random.random() < self.wrong

    def line(self, number: int) -> tuple[str, float]:
        """Its text and its amount."""
        random = self.random
        if self.slip():
            inside = "<Amount>1</Amount>" if self.slip() else "<Note>x</Note>"
            return f'<agg:Line type="comment">{inside}</agg:Line>', 1 if "Amount" in inside else 0
        quantity, price = random.randint(1, 5), random.choice((1, 2.5, 10, 0.25))
        amount = quantity * price + self.slip()
        if self.slip():
            quantity = -quantity
        parts = [] if self.slip() else [f"<ID>{number if not self.slip() else random.choice((1, 12345))}</ID>"]
        parts.append(f"<Quantity>{quantity}</Quantity><Price>{price}</Price>")
        currency = f' currency="{random.choice(("EUR", "USD", ""))}"' if self.slip() else ' currency="EUR"'
        parts.append(f"<Amount{currency}>{amount if not self.slip() else random.choice(('x', '1.0625'))}</Amount>")
        if random.random() < 0.3:
            parts.append(f"<Reason>{random.choice(('credit note', 'none', 'Seller'))}</Reason>")
        if random.random() < 0.3:
            parts.append(f"<agg:Discount><Amount>{0.25 if not self.slip() else 1000}</Amount></agg:Discount>")
        parts.append(f"<agg:Tax><Code>{'S' if not self.slip() else 'Z'}</Code></agg:Tax>")
        if self.slip():
            parts.append(random.choice(("<!-- draft -->", "<!-- done -->", "<?print now?>")))
        kind = "Credit" if self.slip() else "Line"
        return f"<agg:{kind}>{''.join(parts)}</agg:{kind}>", amount

    def party(self, role: str) -> str:
        name = "" if self.slip() else f"<Name>{role}</Name>"
        if role == "Buyer" and self.random.random() < 0.2:
            name = "<Company>Company</Company>"
        country = self.random.choice(("DEU", "", " D ")) if self.slip() else "DE"
        return f"<agg:{role}>{name}<agg:Address><Country>{country}</Country></agg:Address></agg:{role}>"

    def invoice(self) -> bytes:
        if self.slip():
            return b"<!-- draft --><?print no?><order><agg:Line xmlns:agg='urn:example:aggregate'/></order>"
        random = self.random
        lines = [self.line(number) for number in range(1, random.randint(1, 7 if not self.slip() else 1) + 1)]
        if self.slip():
            lines = []
        total = sum(amount for text, amount in lines if text.startswith("<agg:Line")) + self.slip()
        parts = [
            f"<ID>{'' if self.slip() else 'R-7'}</ID><Currency>EUR</Currency>",
            f"<IssueDate>{'2027-01-01' if self.slip() else '2026-10-05'}</IssueDate>",
            f"<DueDate>{'2026-01-01' if self.slip() else '2026-12-01'}</DueDate>" if random.random() < 0.7 else "",
            "<Note>thanks</Note>" if random.random() < 0.5 else "",
            *(self.party(role) for role in ("Seller", "Buyer")),
            *(text for text, _ in lines),
            "<agg:TaxTotal><Code>S</Code></agg:TaxTotal>",
            f'<agg:Total><Payable currency="EUR">{total}</Payable></agg:Total>',
        ]
        return (INVOICE + "\n".join(parts) + "</inv:Invoice>").encode()
