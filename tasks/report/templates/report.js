const OPEN_AT_FIRST = 45;  // rows: a longer table shows only its first size

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(...text);
  made.onclick = act;
  return made;
}

function fold(group, closed) {
  group.classList.toggle("closed", closed);
  group.rows[0].querySelector("button").setAttribute("aria-expanded", String(!closed));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const groups = [...table.tBodies].map(body => {
    const [heading, ...rows] = body.rows;
    return {body, heading, rows};
  });
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.value;
  const sort = (head, column) => {
    const order = {ascending: "descending", descending: ""}[head.getAttribute("aria-sort")] ?? "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    if (order) head.setAttribute("aria-sort", order);
    table.classList.toggle("sorted", order !== "");
    const sign = order === "descending" ? -1 : 1;
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      const difference = Number(x) - Number(y);
      return sign * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
    };
    for (const {body, rows} of groups) body.append(...(order ? [...rows].sort(compare) : rows));
  };
  heads.forEach((head, column) => head.replaceChildren(button(head.childNodes, () => sort(head, column))));

  if (groups.length < 2) continue;
  const bodies = groups.map(group => group.body);
  for (const {body, heading} of groups) {
    const text = heading.querySelector("span");
    text.replaceChildren(button(text.childNodes, () => fold(body, !body.classList.contains("closed"))));
  }
  const long = groups.reduce((sum, group) => sum + group.rows.length, 0) > OPEN_AT_FIRST;
  bodies.forEach((body, place) => fold(body, long && place > 0));
  const all = button(["Expand or collapse all sizes"], () => {
    const closing = !bodies.some(body => body.classList.contains("closed"));
    for (const body of bodies) fold(body, closing);
  });
  all.className = "all";
  table.parentElement.before(all);
}
