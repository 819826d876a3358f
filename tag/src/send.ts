// Posts what waits, one batch at a time, and again later what was not taken.

import { gateway, firstParty, now, safely, settings } from "./page";
import { decide } from "./consent";
import { forget, values } from "./cookies";
import type { Sighting } from "./fbq";
import * as store from "./store";

export interface Item {
  /** What is posted. */
  written: string;
  /** Where it lies on the device; "" if only here. */
  key: string;
  flying?: boolean;
  sighting?: boolean;
}

// Browsers let 64 KiB of keepalive requests be under way at once.
const maxBytes = 48e3;
const maxItems = 200;

const keepalive = "keepalive" in Request.prototype;
let out: Item[] = [];
let busy = false;
let timer = 0;
let failures = 0;
let touch = false;

/** How many of what waits lie on the device. */
export const saved = () => out.filter((item) => item.key).length;

const most = 1e4; // that wait; a page that asks for more loses what is no conversion

/** Adds what is to be sent, unless it waits already. A conversion goes first: a flood before it may take minutes. */
export function add(item: Item, conversion = false): void {
  if (item.key && out.some((other) => other.key === item.key)) return;
  if (conversion) out.unshift(item);
  else if (out.length < most) out.push(item);
}

/** Sends even nothing, so that the server may set the cookie that was just made. */
export function greet(): void {
  touch = true;
  soon();
}

export function soon(): void {
  if (!timer) timer = setTimeout(flush, 20) as unknown as number;
}

export function addSighting(seen: Sighting): void {
  add({ written: JSON.stringify(seen), key: "", sighting: true });
  soon();
}

/** Empties the list, of a refusal, and returns what was in it. */
export function clear(): Item[] {
  const had = out.filter((item) => !item.sighting);
  out = [];
  return had;
}

const size = (text: string) => text.replace(/[^\0-\x7f]/g, "xxx").length;

function take(room: number): Item[] {
  const batch: Item[] = [];
  for (let i = 0; i < out.length && batch.length < maxItems; i++) {
    const item = out[i];
    if (item.flying) continue;
    // Another tab may have taken it over while this page lay in the back-forward cache.
    if (item.key && store.get(item.key) === null) {
      out.splice(i--, 1);
      continue;
    }
    const bytes = size(item.written);
    if (batch.length && bytes > room) break;
    room -= bytes;
    batch.push(item);
  }
  return batch;
}

function body(batch: Item[]): string {
  const list = (sightings: boolean) =>
    "[" + batch.filter((item) => !!item.sighting === sightings).map((item) => item.written).join() + "]";
  const c = values();
  const head = {
    v: 1,
    site: settings.site,
    sent: now(),
    fbc: c.fbc || undefined,
    fbp: c.fbp || undefined,
    consent: decide(),
  };
  return JSON.stringify(head).slice(0, -1) + ',"events":' + list(false) + ',"sightings":' + list(true) + "}";
}

/** Sends a batch unless one is under way; what does not fit follows it. */
export function flush(): void {
  timer = 0;
  if (busy) return;
  const batch = take(maxBytes);
  if (!batch.length && !touch) return;
  touch = false;
  post(batch);
}

function post(batch: Item[]): void {
  busy = true;
  batch.forEach((item) => (item.flying = true));
  const text = body(batch);
  const end = (status: number) => {
    // Taken, or never to be taken; everything else is tried again under the same ids.
    const settled = /^(2..|400|413|422)$/.test("" + status);
    failures = settled ? 0 : failures + 1;
    // The answer to what was sent before a refusal may just have set what the refusal has taken off.
    if (decide().ads === "denied") forget();
    batch.forEach((item) => {
      item.flying = false;
      if (!settled) return;
      if (item.key) store.drop(item.key);
      out.splice(out.indexOf(item) >>> 0, 1);
    });
    // Busy until then: events that come meanwhile do not hasten it.
    setTimeout(next, failures && Math.min(60, Math.pow(2, failures)) * 1e3);
  };
  const request: RequestInit = {
    method: "POST",
    body: text,
    credentials: firstParty ? "include" : "omit",
    headers: { "Content-Type": "text/plain;charset=UTF-8" },
    keepalive: size(text) < 6e4,
  };
  const sent = safely(() => fetch(gateway + "/t", request));
  // An answer that nobody reads counts as under way, and keeps others of keepalive out.
  if (sent) sent.then((answer) => answer.text().then(() => end(answer.status))).catch(() => end(0));
  else end(0);
}

/** The page goes: what fits is handed to the browser, the rest lies on the device for the next page. */
export function leave(): void {
  let room = maxBytes + 12e3;
  out.forEach((item) => (room -= item.flying ? size(item.written) : 0));
  for (let batch; room > 2e3 && (batch = take(room - 1e3)).length; ) {
    const bytes = size(body(batch));
    if (bytes > room) break;
    room -= bytes;
    if (keepalive) post(batch);
    else {
      batch.forEach((item) => (item.flying = true));
      safely(() => navigator.sendBeacon(gateway + "/t", new Blob([body(batch)], { type: "text/plain;charset=UTF-8" })));
    }
  }
}

function next(): void {
  busy = false;
  flush();
}

/** The page is back, or the network is. */
export function again(): void {
  failures = 0;
  next();
}
