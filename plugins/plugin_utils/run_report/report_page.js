"use strict";
const nodes = JSON.parse(document.getElementById("nodes").textContent);
const detail = document.getElementById("detail");

function line(label, text) {
  const row = document.createElement("div");
  const name = document.createElement("b");
  name.textContent = label + ": ";
  row.append(name, text);
  detail.append(row);
}

function show(name) {
  const node = nodes[name];
  detail.replaceChildren();
  detail.hidden = false;
  const head = document.createElement("h2");
  head.textContent = name + ": " + node.outcome;
  detail.append(head);
  if (node.parts) line("changes", node.parts);
  if (node.failed && node.failed.task) line("task", node.failed.task);
  if (node.waits_for_jobs.length) line("waits for jobs", node.waits_for_jobs.join(", "));
  if (node.drained) line("Slurm", "drained by this run");
  line("tasks", node.ok + " ok, " + node.changed + " changed, " + node.skipped + " skipped, " + node.seconds + " s");
  for (const one of node.findings) line(one.severity, one.where + ": " + (one.expected ? "expected " + one.expected + ", found " : "") + one.found + (one.remedy ? "; " + one.remedy : ""));
  const why = (node.failed && node.failed.reason) || node.why;
  if (why) {
    const text = document.createElement("pre");
    text.textContent = why;
    detail.append(text);
  }
}

let filter = "";
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.node) return show(button.dataset.node);
  filter = filter === button.dataset.filter ? "" : button.dataset.filter;
  for (const one of document.querySelectorAll(".node")) one.classList.toggle("dim", filter !== "" && !one.classList.contains(filter));
});
// A link to a node: report.html#gpu007.
const linked = decodeURIComponent(location.hash.slice(1));
if (Object.hasOwn(nodes, linked)) show(linked);
