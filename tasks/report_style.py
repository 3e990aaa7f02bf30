"""How the report looks: on a desktop, on a phone and on paper, with nothing from elsewhere."""

STYLE = """
:root { color-scheme: light; --ink: #1c2530; --soft: #5b6774; --line: #dfe4ea; --blue: #0072B2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1220px; padding: 1.5rem 1.25rem 4rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; padding-bottom: .3rem; border-bottom: 2px solid var(--line); }
.lead { color: var(--soft); margin: 0 0 1.4rem; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(215px, 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-left: 4px solid var(--blue); border-radius: 6px;
  padding: .7rem .9rem; }
.card b { display: block; font-size: 1.7rem; line-height: 1.25; }
.card span { display: block; }
.card small { color: var(--soft); display: block; line-height: 1.35; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1.2rem 0 1.2rem; font-size: .93rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .5rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 3rem); }
.hint { color: var(--soft); font-size: .86rem; margin: -.4rem 0 1rem; }
th, td { padding: .32rem .6rem; text-align: right; white-space: nowrap; vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
tbody th { font-weight: 400; }
th:first-child { text-align: left; }
.sortable tr > :last-child { text-align: left; white-space: normal; min-width: 9rem; }
.sortable tbody th[scope=row] { white-space: normal; min-width: 11rem; }
th button, button.all { all: unset; cursor: pointer; }
button:hover { text-decoration: underline; }
button:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; border-radius: 2px; }
button.all { color: var(--blue); font-size: .86rem; margin-bottom: .2rem; }
th[aria-sort=ascending] button::after { content: " ▲"; font-size: .7em; }
th[aria-sort=descending] button::after { content: " ▼"; font-size: .7em; }
tr.size th { background: #f0f3f6; font-weight: 600; padding: .4rem .6rem; border-top: 1px solid #9aa5b1; }
tr.size span { position: sticky; left: .6rem; }
tr.size small { color: var(--soft); font-weight: 400; margin-left: .4rem; }
tr.size button::before { content: "▾"; display: inline-block; width: 1.1em; }
.closed tr.size button::before { content: "▸"; }
.closed tr:not(.size) { display: none; }
table:not(.sorted) tr.group > * { border-top: 1px solid var(--line); }
table:not(.sorted) tr.beyond > * { border-top: 2px solid #9aa5b1; }
td small { display: block; color: var(--soft); font-size: .78rem; line-height: 1.2; }
table.tests { width: auto; }
table.tests thead th { white-space: normal; max-width: 22rem; }
details.conditions { color: var(--soft); font-size: .86rem; margin: -.4rem 0 2.4rem; }
.scroll + .notes:has(+ :not(details)), .scroll + .notes:last-child { margin-bottom: 2.4rem; }
table.plain td { text-align: left; white-space: normal; border-bottom: 1px solid var(--line); }
table.plain td:first-child { font-weight: 600; white-space: nowrap; vertical-align: top; }
ul.notes { color: var(--soft); font-size: .86rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
figure { margin: 0 0 2rem; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
pre { background: #f5f7f9; border: 1px solid var(--line); border-radius: 6px; padding: .9rem;
  overflow-x: auto; font-size: .84rem; }
summary { cursor: pointer; }
a { color: var(--blue); }
ul.files { columns: 2; column-gap: 2rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
@media (max-width: 640px) { body { padding: 1rem .8rem 3rem; } ul.files { columns: 1; }
  h1 { font-size: 1.4rem; } .card b { font-size: 1.4rem; }
  .cards { grid-template-columns: 1fr 1fr; } .card { padding: .5rem .6rem; }
  th, td { padding: .32rem .45rem; } figure img { min-width: 560px; }
  .sortable thead th:first-child, .sortable tbody th[scope=row] { position: sticky; left: 0;
    background: #fff; min-width: 8.2rem; max-width: 8.2rem; box-shadow: 1px 0 var(--line); }
  .sortable thead th:first-child { box-shadow: 1px 0 var(--line), inset 0 -2px var(--ink); }
  .sortable tr > :last-child { min-width: 13rem; } }
@media print { @page { size: A4 landscape; margin: 1.2cm; }
  body { max-width: none; padding: 0; font-size: 11px; } .scroll { overflow: visible; }
  .closed tr:not(.size) { display: table-row; } tr, figure { break-inside: avoid; }
  thead { display: table-header-group; break-inside: avoid; } table { font-size: 10px; }
  button.all, .hint, nav { display: none; }
  th button::after, tr.size button::before { content: none !important; }
  details.conditions::details-content { content-visibility: visible; } }
"""
