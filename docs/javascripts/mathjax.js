// Formulas are marked by the arithmatex extension; MathJax typesets only what is marked, again after each page change.
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]], processEscapes: true, processEnvironments: true },
  options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
};
document$.subscribe(() => window.MathJax.typesetPromise && window.MathJax.typesetPromise());
