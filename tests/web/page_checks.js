// What people ask of a page: a name for everything, enough contrast, no line too wide.
() => {
  const problems = [];
  const say = (what, node) => problems.push(`${what}: ${(node.outerHTML || node).slice(0, 120)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];

  const rgb = (text) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const bright = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, w, k) => sum + w * linear(color[k] / 255), 0);
  const mixed = (under, over) => over.slice(0, 3).map((v, k) => (v * over[3] + under[k] * (255 - over[3])) / 255);
  const behind = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) {
      layers.push(rgb(getComputedStyle(n).backgroundColor));
      if (layers.at(-1)[3] === 255) break;
    }
    return layers.reduceRight((under, over) => (over[3] ? mixed(under, over) : under), [255, 255, 255]);
  };

  if (!document.documentElement.lang) say("no language", "html");
  if (!document.title) say("no title", "head");
  if (all("h1").length !== 1) say("not one h1", document.body);
  if (!document.querySelector("main") || !document.querySelector("nav[aria-label]")) say("no landmarks", "body");
  let level = 1;
  for (const heading of all("h1, h2, h3")) {
    const now = Number(heading.nodeName[1]);
    if (now > level + 1) say("a heading skips a level", heading);
    level = now;
  }
  for (const field of all("input:not([type=hidden]), textarea, select"))
    if (!field.labels?.length && !field.getAttribute("aria-label")) say("no label", field);
  for (const node of all("a, button, summary, progress, [role=img]"))
    if (!(node.textContent.trim() || node.getAttribute("aria-label"))) say("no name", node);
  for (const svg of all("svg:not([aria-hidden=true])")) if (!svg.getAttribute("aria-label")) say("no text", svg);
  const ids = all("[id]").map((node) => node.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) say("an id twice", id);
  for (const node of all("[aria-labelledby]"))
    if (!document.getElementById(node.getAttribute("aria-labelledby"))) say("no such label", node);
  for (const node of all("button, summary")) {
    const box = node.getBoundingClientRect();
    if (box.height && box.height < 24) say("too small to touch", node);
  }

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const shown = texts.currentNode.data.trim() && node.checkVisibility();
    if (!shown || node.closest("svg, script, progress, title")) continue;
    const [a, b] = [bright(rgb(getComputedStyle(node).color)), bright(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const least = /[\p{L}\p{N}]/u.test(texts.currentNode.data) ? 4.5 : 3; // letters, or a sign
    if (ratio < least) say(`contrast ${ratio.toFixed(2)}`, node);
  }
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) say(`${over} pixels too wide`, "page");
  return problems;
}
