// SPDX-License-Identifier: GPL-3.0-or-later
// Cables are many: rows for those that match are made when they are searched, 500 at most.
(function () {
  "use strict";
  var box = document.getElementById("search"), body = document.getElementById("cable-rows");
  var counter = document.getElementById("cable-count"), data = JSON.parse(document.getElementById("cables").textContent);
  var low = data.map(function (row) { return row.join(" ").toLowerCase(); });
  function has(text, words) { return words.every(function (word) { return text.indexOf(word) >= 0; }); }
  function show() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean), count = 0, made = document.createDocumentFragment();
    document.querySelectorAll("tr[data-row]").forEach(function (row) { row.hidden = !has(row.textContent.toLowerCase(), words); });
    data.forEach(function (row, number) {
      if (!has(low[number], words)) { return; }
      count += 1;
      if (count > 500) { return; }
      var line = document.createElement("tr");
      row.forEach(function (value) { line.appendChild(document.createElement("td")).textContent = value; });
      made.appendChild(line);
    });
    body.textContent = "";
    body.appendChild(made);
    counter.textContent = count + " of " + data.length + " cables" + (count > 500 ? ", the first 500 shown" : "");
  }
  box.addEventListener("input", show);
  show();
})();
