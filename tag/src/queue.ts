// From a call to what is posted: waits for the decision, gives the id, writes to the device, tells the Pixel.

import { bare, now, safely, settings, whole } from "./page";
import { clicks, forgetClicks, remember } from "./clicks";
import { decide, mode, type Decision, type Mode } from "./consent";
import * as cookies from "./cookies";
import { limitPixel, loaded, once, pixelHere, pixelLimited, tellPixel, type Limited, type Sighting } from "./fbq";
import { orderID, short, uuid } from "./ids";
import * as send from "./send";
import * as store from "./store";

/** What a person may be known by; only where the page gives it or asks for it. */
export interface Person {
  em?: string;
  ph?: string;
  external_id?: string;
}

/** An event as it happened. */
export interface Draft {
  name: string;
  /** JSON: the page may change its object afterwards. */
  data: string;
  id: string;
  person?: Person;
  at: number;
  url: string;
  referrer: string;
  form?: boolean;
  /** The same of an earlier page is the same event, if it is no older than this many ms. */
  again?: number;
}

type Event = Record<string, unknown>;

const me = short();
const begun = now();
let serial = 0;
let backlog: Draft[] = [];
let held: Draft[] = [];
let seen: Sighting[] = [];
let pixelCalls: [name: string, data: object, id: string][] = [];
let sync = 0;
let person: Person = {};
let limited: Limited | undefined;

const personal = ["em", "ph", "external_id"] as const;

const know = (of: Person, from?: Person) =>
  personal.forEach((key) => from && from[key] && (of[key] = "" + from[key]));

export const identify = (who: Person) => know(person, who);

export const limit = (country: unknown, state: unknown) => {
  limited = { country: +(country as number) || 0, state: +(state as number) || 0 };
  tellLimit();
};

const tellLimit = () => {
  if (limited && settings.pixel && pixelHere() && mode() === "full") limitPixel(limited);
};

/**
 * Takes an event. The first of a task are worked at once, so that they lie on the device before the page can
 * go; a flood is worked in slices, so that the page stays quick.
 */
export function track(draft: Draft): void {
  if (sync++ < 20) settle(draft);
  else keep(backlog, draft, 1e4);
  work();
}

let working = 0;
function work(): void {
  if (!working) working = setTimeout(slice, 0) as unknown as number;
}

function slice(): void {
  working = 0;
  sync = 0;
  const until = performance.now() + 8;
  let i = 0;
  while (i < backlog.length && performance.now() < until) safely(() => settle(backlog[i++]));
  backlog.splice(0, i);
  if (backlog.length) work();
}

function settle(draft: Draft): void {
  const how = mode();
  if (how === "hold") keep(held, draft, 1e3);
  else if (how !== "drop") emit(draft, how);
}

/** So many wait in memory; beyond that only what a page makes once. */
function keep(list: Draft[], draft: Draft, most: number): void {
  if (list.length < most || once(draft.name)) list.push(draft);
}

const refused = (e: Event): Event => ({ event_name: e.event_name, event_id: e.event_id, at: e.at, form: e.form, consent: decide() });

function emit(d: Draft, how: Mode): void {
  const data = JSON.parse(d.data) as Event;
  const order = orderID(data.order_id || "");
  const id = d.id || order || uuid();
  const consent = decide();
  const event: Event = { event_name: d.name, event_id: id, at: d.at, form: d.form, ldu: limited || pixelLimited };
  if (how === "bare") return post(refused(event), false);
  if (Object.keys(data).length) event.custom_data = data;
  if (how === "plain") {
    event.event_source_url = bare(d.url);
    event.referrer_url = bare(d.referrer) || undefined;
    event.consent = { ads: "", by: "plain", gpc: consent.gpc } as Decision;
    return post(event, false);
  }
  if (repeated(d, id, !!order)) return;
  const c = cookies.values();
  const who: Person & { fbc?: string; fbp?: string } = {};
  know(who, person);
  know(who, d.person);
  if (c.fbc) who.fbc = c.fbc;
  if (c.fbp) who.fbp = c.fbp;
  event.event_source_url = whole(d.url);
  event.referrer_url = d.referrer ? whole(d.referrer) : undefined;
  event.user_data = Object.keys(who).length ? who : undefined;
  event.clicks = clicks();
  event.consent = consent;
  post(event, true, once(d.name));
  if (settings.pixel) {
    if (pixelCalls.length || !pixelHere()) pixelCalls.length < 1e3 && pixelCalls.push([d.name, data, id]);
    else pixel(d.name, data, id);
  }
}

/** Whether this was already taken: by its id, or because the page was loaded again. Notes it if not. */
function repeated(d: Draft, id: string, fixed: boolean): boolean {
  const byID = fixed || (d.id && once(d.name)) ? d.name + " " + id : "";
  const byPage = once(d.name) && !d.form ? d.name + " " + d.url + " " + d.data : "";
  if (!byID && !byPage) return false;
  const done = (store.read("d") || {}) as Record<string, number>;
  if (done[byID] || (done[byPage] < begun && done[byPage] > d.at - d.again!)) return true;
  for (const key of [byID, byPage]) if (key) done[key] = d.at;
  Object.keys(done).reverse().forEach((key, i) => (i > 200 || done[key] < now() - 2592e6) && delete done[key]);
  store.put("d", JSON.stringify(done));
  return false;
}

function pixel(name: string, data: object, id: string): void {
  const consent = decide();
  limitPixel(limited || (consent.gpc && consent.by !== "site" ? { country: 0, state: 0 } : undefined));
  tellPixel(name, data, id);
}

/** The Pixel has come to the page, or was there. */
export function pixelArrived(): void {
  tellLimit();
  if (pixelHere() && mode() === "full") for (let c; (c = pixelCalls.shift()); ) pixel(...c);
  if (loaded) report();
}

/** Puts an event onto the device, where it may, and among what waits to be sent. */
function post(event: Event, full: boolean, conversion = false): void {
  let key = "";
  if (full) {
    key = "e." + me + serial++;
    if (!save(key, event, conversion)) key = "";
  }
  send.add({ written: JSON.stringify(event), key }, conversion);
  send.soon();
}

// Events that lie on the device at once, and conversions: the rest of the storage is the site's own.
const most = [500, 2e3];

/** Writes an event down without what must not lie around: e-mail, phone and the person's id. */
function save(key: string, event: Event, conversion: boolean): boolean {
  if (send.saved() > most[+conversion]) return false;
  const text = JSON.stringify(event, (name, value) => (personal.indexOf(name as "em") < 0 ? value : undefined));
  return store.put(key, text);
}

/**
 * Takes over what pages that are gone have left. What is younger may be under way by another tab; what both
 * send is one for the server, by its id.
 */
function adopt(): void {
  store.keys("e.").forEach((key) => {
    const text = store.get(key);
    const at = safely(() => JSON.parse(text!).at);
    // Meta takes events of a website for seven days.
    if (!(at > now() - 6048e5)) store.drop(key);
    else if (at < now() - 1e4) send.add({ written: text!, key });
  });
  send.soon();
}

/** What the Pixel was seen to do waits until it is known whether the Pixel is there at all. */
export function see(s: Sighting): void {
  if (/full|hold/.test(mode()) && seen.length < 1000) seen.push(s);
  if (loaded) report();
}

/** Hands on what was seen; the Pixel that never came has reported none of it. */
export function report(): void {
  if (mode() !== "full") return;
  const list = seen;
  seen = [];
  list.forEach((s) => {
    s.blocked = !loaded;
    send.addSighting(s);
  });
}

/** Called when the decision has changed: what waited flows, or everything is erased. */
export function decided(arrived: () => void): void {
  const how = mode();
  if (how === "full") {
    arrived();
    remember();
    pixelArrived();
    adopt();
    setTimeout(adopt, 12e3);
  } else if (how === "bare") {
    store.erase();
    cookies.forget();
    forgetClicks();
    person = {};
    seen = [];
    pixelCalls = [];
    send.clear().forEach((item) => post(refused(JSON.parse(item.written)), false));
  }
  backlog = held.concat(backlog);
  held = [];
  work();
}

/** The page goes: conversions that still wait in the backlog are worked first. */
export function leaving(): void {
  const rest = backlog.sort((a, b) => +once(b.name) - +once(a.name));
  backlog = [];
  const until = performance.now() + 30;
  rest.forEach((d) => (once(d.name) || performance.now() < until) && safely(() => settle(d)));
  report();
  send.leave();
}
