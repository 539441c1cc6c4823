(function () {
  var box = document.getElementById("search"), none = document.getElementById("none");
  var items = Array.prototype.slice.call(document.querySelectorAll("[data-item]"));
  var texts = items.map(function (item) { return item.textContent.toLowerCase(); });
  function search() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean), found = 0;
    items.forEach(function (item, at) {
      var fits = words.every(function (word) { return texts[at].indexOf(word) >= 0; });
      item.hidden = !fits;
      found += fits;
      Array.prototype.forEach.call(item.querySelectorAll("details"), function (inner) {
        inner.open = words.length > 0 && fits && words.some(function (word) {
          return inner.textContent.toLowerCase().indexOf(word) >= 0;
        });
      });
    });
    none.hidden = found > 0 || !words.length;
  }
  box.hidden = false;
  box.addEventListener("input", search);
  if (location.hash.indexOf("#search=") === 0) {
    box.value = decodeURIComponent(location.hash.slice(8));
    search();
  }
})();
