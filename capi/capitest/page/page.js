// Everything that came from outside is put in with textContent: it is text, whatever it says.
'use strict';
const most = 200;
const $ = (id) => document.getElementById(id);
const shown = new Map(); // seq -> li
const datasets = new Set();

function el(tag, cls, text) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
}

function clock(s) {
  const d = new Date(s);
  return d.toLocaleDateString([], { month: 'short', day: 'numeric' }) + ', ' + d.toLocaleTimeString();
}

function item(e) {
  const li = el('li');
  li.dataset.dataset = e.dataset;
  li.append(el('span', 'name', e.event_name), el('span', 'time', clock(e.event_time * 1000)));

  const where = el('div', 'wide soft');
  where.append('dataset ' + e.dataset + ' · ' + (e.action_source || 'no action_source') + ' · ' + (e.browser ? 'browser' : 'server') + ' · id ');
  where.append(el('span', 'id', e.event_id || '(none)'));
  li.append(where);

  const keys = el('div', 'wide');
  for (const k of e.keys) keys.append(el('span', 'tag key', k));
  if (e.value !== undefined) keys.append(el('span', 'tag', e.value + ' ' + (e.currency || '')));
  if (e.test_event_code) keys.append(el('span', 'tag dropped', 'test code ' + e.test_event_code + ', counts all the same'));
  li.append(keys);

  const outcome = el('div', 'wide');
  outcome.append(el('span', 'tag ' + e.outcome, e.outcome));
  outcome.append(el('span', 'soft', e.reason + (e.duplicate_of ? ' (counted is number ' + e.duplicate_of + ')' : '') + ' · number ' + e.seq));
  li.append(outcome);
  if (e.warnings) li.append(el('div', 'wide warnings', 'Accepted, but: ' + e.warnings.join('; ')));
  return li;
}

function choose() {
  const only = $('dataset').value;
  for (const li of shown.values()) li.hidden = only !== '' && li.dataset.dataset !== only;
}

function knowDataset(id) {
  if (datasets.has(id) || datasets.size > 200) return;
  datasets.add(id);
  const o = el('option', '', id);
  o.value = id;
  $('dataset').append(o);
}

function forget() {
  shown.clear();
  $('events').replaceChildren();
}

function show(m) {
  if (m.reset) forget();
  for (const e of m.events || []) {
    knowDataset(e.dataset);
    const li = item(e);
    shown.set(e.seq, li);
    $('events').prepend(li);
  }
  for (const e of m.changed || []) {
    const old = shown.get(e.seq);
    if (!old) continue;
    const li = item(e);
    old.replaceWith(li);
    shown.set(e.seq, li);
  }
  for (const [seq, li] of shown) {
    if (shown.size <= most) break;
    li.remove();
    shown.delete(seq);
  }
  const q = m.requests;
  $('received').textContent = m.total.toLocaleString();
  $('requests').textContent = q.count.toLocaleString();
  const refused = Object.entries(q.refused);
  $('refused').textContent = refused.reduce((n, [, v]) => n + v, 0).toLocaleString();
  $('reasons').hidden = refused.length === 0;
  $('reasons').textContent = 'Refused with code ' + refused.map(([k, v]) => k + ' (' + v + '×)').join(', ');
  $('largest').textContent = q.max_events ? q.max_events.toLocaleString() + (q.max_events === 1 ? ' event' : ' events') : '–';
  $('faults').replaceChildren(...m.faults.map((f) => el('li', '', 'Active: ' + fault(f))));
  $('empty').hidden = m.total > 0;
  $('skipped').hidden = m.total <= most;
  $('skipped').textContent = 'The last ' + most + ' of ' + m.total.toLocaleString() + ' events; all of them at /_sandbox/events.';
  choose();
}

function fault(f) {
  const code = f.mode === 'error' || f.mode === 'localised' || f.mode === 'poison' ? ' ' + f.code + (f.subcode ? '/' + f.subcode : '') : '';
  const left = f.left < 0 ? 'until cleared' : f.left + ' more';
  return f.mode + code + (f.dataset ? ' for ' + f.dataset : '') + ', ' + left + ', met ' + f.hits;
}

$('curl').textContent = "curl -X POST '" + location.origin + "/v26.0/1234567890/events' \\\n" +
  "  -H 'Authorization: Bearer any-token' -H 'Content-Type: application/json' \\\n" +
  "  -d '{\"data\":[{\"event_name\":\"Lead\",\"event_time\":'$(date +%s)',\"event_id\":\"lead-1\",\"action_source\":\"website\",\n" +
  "       \"event_source_url\":\"https://example.com/\",\"user_data\":{\"client_user_agent\":\"curl\",\n" +
  "       \"em\":\"62a14e44f765419d10fea99367361a727c12365e2520f32218d505ed9aa0f62f\"}}]}'";
$('dataset').addEventListener('change', choose);

const source = new EventSource('/_sandbox/stream');
source.onopen = () => { $('state').textContent = 'live'; };
source.onerror = () => { $('state').textContent = 'connection lost, trying again …'; };
source.onmessage = (m) => show(JSON.parse(m.data));
