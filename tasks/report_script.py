"""The report's one script: a click on a heading sorts the table, another turns it, a third puts it back."""

SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  const buttons = [...table.tHead.rows[0].cells].map((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.onclick = () => sort(head, column);
    head.replaceChildren(button);
    return button;
  });
  const value = (row, column) => row.cells[column].dataset.value;
  function sort(head, column) {
    const order = {ascending: "descending", descending: ""}[head.ariaSort] ?? "ascending";
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    if (order) head.setAttribute("aria-sort", order);
    table.classList.toggle("sorted", order !== "");
    const sign = order === "descending" ? -1 : 1;
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      const difference = Number(x) - Number(y);
      return sign * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
    };
    body.append(...(order ? [...original].sort(compare) : original));
  }
}
"""
