"""What a night has to say: key figures and tables (Markdown), the same in Prefect and on the console."""

from __future__ import annotations

from tasks.nightly import NightSummary


def night_figures(night: NightSummary) -> dict[str, str]:
    """Return the key figures of a night."""
    taken = night.taken
    figures = {
        "route files": f"{len(taken.receipts)} new, {taken.known} known",
        "new days": str(len(taken.days)),
        "rows in quarantine": f"{sum(receipt.rejected for receipt in taken.receipts):,}",
    }
    if refused := [receipt for receipt in taken.receipts if receipt.refused]:
        figures["refused files"] = "; ".join(str(receipt.refused) for receipt in refused)
    if night.mix:
        rows = sum(night.mix.rows.values())
        share = 100 * night.mix.fresh / rows
        times = night.mix.times
        figures["learned from"] = f"{rows:,} labels, {share:.0f} % of them fresh, each day {times} times"
    if night.drift:
        moved = [each.name for each in night.drift if each.alarm]
        figures["drift"] = ", ".join(moved) if moved else "none worth a look"
    record = night.record
    if not night.new:
        figures["decision"] = "no new days to learn from: nothing to do"
    elif record:
        verb = "promoted" if record.applied else "not promoted"
        figures["decision"] = f"version {record.challenger} {verb}: {'; '.join(record.reasons)}"
    if record:
        figures["champion"] = f"version {record.challenger if record.applied else record.champion}"
    return figures


def night_tables(night: NightSummary) -> str:
    """Return comparison and drift as Markdown, "" where there are none."""
    parts = []
    if night.decision and night.decision.buckets:
        parts.append("## Champion against challenger\n")
        parts.append("| Instances | Customers | Number | Champion | Challenger | Change (%) |")
        parts.append("|---|--:|--:|--:|--:|--:|")
        parts += [
            f"| {each.part} | {each.sizes} | {each.instances} | {each.champion:.3f} | {each.challenger:.3f} "
            f"| {each.change:+.2f} |"
            for each in night.decision.buckets
        ]
    if night.drift:
        parts.append("\n## Fresh days against what was learned from\n")
        parts.append("| | Before | Now | Distance |")
        parts.append("|---|---|---|--:|")
        parts += [
            f"| {each.name}{' **(look)**' if each.alarm else ''} | {each.then} | {each.now} "
            f"| {each.distance:.2f} |"
            for each in night.drift
        ]
    return "\n".join(parts)
