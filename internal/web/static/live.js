// Keeps the page fresh: the server sends the page's parts when they change, and those
// that differ are swapped. What is open stays open, and the focus stays where it is.
const button = document.getElementById('pause');
const pause = button.textContent;
let source;

function swap(part) {
  const old = document.getElementById(part.id);
  if (!old) return location.reload();
  if (old.outerHTML === part.outerHTML) return;
  const open = [...old.querySelectorAll('details[open]')].map((d) => d.id);
  const at = old.contains(document.activeElement) ? document.activeElement : null;
  for (const id of open) part.querySelector('#' + CSS.escape(id))?.setAttribute('open', '');
  const wanted = at && (at.getAttribute('href') ? `a[href="${CSS.escape(at.getAttribute('href'))}"]`
    : at.parentNode.id ? `#${CSS.escape(at.parentNode.id)} > ${at.tagName}` : at.tagName);
  old.replaceWith(part);
  if (wanted) part.querySelector(wanted)?.focus({ preventScroll: true });
}

function start() {
  source = new EventSource(document.body.dataset.live);
  source.onopen = () => { button.textContent = pause; };
  source.onerror = () => { button.textContent = button.dataset.lost; };
  source.onmessage = (e) => {
    const parts = new DOMParser().parseFromString(e.data, 'text/html').querySelectorAll('[data-part]');
    if (parts.length !== document.querySelectorAll('[data-part]').length) return location.reload();
    parts.forEach(swap);
  };
}

button.hidden = false;
button.onclick = () => {
  if (source) {
    source.close();
    source = null;
    button.textContent = button.dataset.resume;
  } else {
    button.textContent = pause;
    start();
  }
};
start();
