"""What a night has to say: key figures and tables (Markdown), the same in Prefect and on the console."""

from __future__ import annotations

from tasks.nightly import NightSummary
from tasks.trial_words import comparison, drifts, learned


def night_figures(night: NightSummary) -> dict[str, str]:
    """Return the key figures of a night."""
    taken, measured = night.taken, night.measured
    figures = {
        "route files": f"{len(taken.receipts)} new, {taken.known} known",
        "new days": str(len(taken.days)),
        "rows in quarantine": f"{sum(receipt.rejected for receipt in taken.receipts):,}",
    }
    if taken.waiting:
        figures["not taken yet"] = "; ".join(map(str, taken.waiting))
    if refused := [receipt for receipt in taken.receipts if receipt.refused]:
        figures["refused files"] = "; ".join(str(receipt.refused) for receipt in refused)
    if measured:
        figures["learned from"] = learned(measured)
    if measured and measured.drift:
        moved = [each.name for each in measured.drift if each.alarm]
        figures["drift"] = ", ".join(moved) if moved else "none worth a look"
    record = night.record
    if not night.new:
        figures["decision"] = "no new days to learn from: nothing to do"
    elif record:
        verb = "promoted" if record.applied else "not promoted"
        figures["decision"] = f"version {record.challenger} {verb}: {'; '.join(record.reasons)}"
    if record:
        figures["champion"] = f"version {record.now}"
    return figures


def night_tables(night: NightSummary) -> str:
    """Return comparison and drift as Markdown, "" where there are none."""
    if night.measured is None:
        return ""
    return "\n\n".join(part for part in (comparison(night.measured), drifts(night.measured)) if part)
