"use strict";
(function () {
  var root = document.documentElement;
  var theme = document.getElementById("theme");
  if (theme) {
    var system = window.matchMedia("(prefers-color-scheme: dark)");
    var isDark = function () {
      return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    };
    var name = function () { theme.textContent = isDark() ? "Light" : "Dark"; };
    theme.hidden = false;
    theme.addEventListener("click", function () {
      root.dataset.theme = isDark() ? "light" : "dark";
      name();
    });
    system.addEventListener("change", name);
    name();
  }

  function key(row, column) {
    var cell = row.cells[column];
    return cell.hasAttribute("data-v") ? parseFloat(cell.getAttribute("data-v")) : cell.textContent.trim();
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function sortBy(table, head, column) {
    var numeric = head.classList.contains("n");
    var was = head.getAttribute("aria-sort");
    var down = was ? was === "ascending" : numeric;
    var body = table.tBodies[0];
    var rows = Array.prototype.map.call(body.rows, function (row, at) {
      return { row: row, at: at, key: key(row, column) };
    });
    rows.sort(function (a, b) {
      // What is blank stays below, whichever way.
      var blankA = a.key === "" || a.key !== a.key, blankB = b.key === "" || b.key !== b.key;
      if (blankA || blankB) return blankA - blankB || a.at - b.at;
      return (down ? -1 : 1) * compare(a.key, b.key) || a.at - b.at;
    });
    rows.forEach(function (entry) { body.appendChild(entry.row); });
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) { cell.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  Array.prototype.forEach.call(document.querySelectorAll("table.sortable"), function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      button.addEventListener("click", function () { sortBy(table, head, column); });
    });
    var find = document.getElementById(table.getAttribute("data-find"));
    if (!find) return;
    find.hidden = false;
    find.addEventListener("input", function () {
      var wanted = find.value.toLowerCase();
      Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
        row.hidden = row.textContent.toLowerCase().indexOf(wanted) < 0;
      });
    });
  });

  // A page on paper has nothing to click on.
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.filter.call(document.querySelectorAll("details"), function (d) { return !d.open; });
    closed.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (d) { d.open = false; });
  });
})();
