// Sees what the Pixel is asked to report, whoever asks, without standing in the way: fbq stays the function
// it is, and every call goes on as it came.

import { now, safely, w, whole, type Foreign } from "./page";
import { short } from "./ids";
import { watch, watchList } from "./watch";

export interface Sighting {
  n: string;
  pixel: string;
  event_name: string;
  event_id: string;
  at: number;
  url: string;
  external_id?: string;
  own: boolean;
  blocked: boolean;
}

export interface Limited {
  country: number;
  state: number;
}

// Meta's standard events; the first eight are those that a page makes once.
const standard = (
  "Purchase Lead CompleteRegistration Subscribe StartTrial SubmitApplication Schedule Donate PageView ViewContent " +
  "Search AddToCart AddToWishlist InitiateCheckout AddPaymentInfo Contact CustomizeProduct FindLocation"
).split(" ");

/** Whether a page makes such an event once; the same of a page that was loaded again is no second one. */
export const once = (name: string) => standard.slice(0, 8).indexOf(name) >= 0;

const pixels: string[] = [];
const known: Foreign[] = [];
/** Calls that lie in fbq's queue and come again when it is drained. */
let queued: Foreign[] = [];
let external: string | undefined;
let own = false;
let revoked = false;
let paused: Sighting[] = [];
let report: (seen: Sighting) => void;

/** What the page has told the Pixel about limited data use. */
export let pixelLimited: Limited | undefined;
/** What the tag has told it since. */
let limitTold: string | undefined;

/** Whether the Pixel's library is there: until then calls wait in its queue. */
export let loaded = false;

/** Calls report with what the Pixel is told to report, arrived when the Pixel comes to the page. */
export function watchPixel(see: (seen: Sighting) => void, arrived: () => void): void {
  report = see;
  watch(w, "fbq", (fbq) => {
    if (typeof fbq === "function" && known.indexOf(fbq) < 0) {
      known.push(fbq);
      safely(() => attach(fbq, arrived));
    }
    return fbq;
  });
}

function attach(fbq: Foreign, arrived: () => void): void {
  if (fbq.callMethod) readPast();
  watch(fbq, "queue", (queue) => {
    watchList(queue, (call) => {
      queued.push(call);
      note(call);
    });
    return queue;
  });
  watch(fbq, "callMethod", (method) => {
    if (typeof method !== "function") return method;
    loaded = true;
    // The library drains the queue when it starts; what is left then was not taken from there.
    setTimeout(() => {
      queued = [];
      arrived();
    }, 0);
    return function (this: unknown) {
      const call = arguments;
      safely(() => {
        for (let i = 0; i < queued.length; i++) if (same(queued[i], call)) return void queued.splice(i, 1);
        note(call);
      });
      return method.apply(this, call);
    };
  });
  // The snippet is still at work: its init comes before anything of ours.
  setTimeout(arrived, 0);
}

function same(a: Foreign, b: Foreign): boolean {
  for (let i = 0; i < b.length; i++) if (a[i] !== b[i]) return false;
  return a.length === b.length;
}

/** Finds what the Pixel has reported before the tag was there: the requests it has made. */
function readPast(): void {
  safely(() => {
    const start = performance.timeOrigin || performance.timing.navigationStart;
    performance.getEntriesByType("resource").forEach((entry) => {
      const m = /^https:\/\/www\.facebook\.com\/tr\/?\?(.*)/.exec(entry.name);
      if (!m) return;
      const value = (name: string) => {
        const v = new RegExp("(?:^|&)" + name + "=([^&]*)").exec(m[1]);
        return v ? decodeURIComponent(v[1].replace(/\+/g, " ")) : "";
      };
      addPixel(value("id"));
      note(["dataProcessingOptions", [value("dpo")], value("dpoco"), value("dpost")]);
      sight([value("id")], value("ev"), value("eid"), Math.round(start + entry.startTime));
    });
  });
}

function addPixel(id: unknown): void {
  if (id && pixels.indexOf("" + id) < 0) pixels.push("" + id);
}

function note(call: Foreign): void {
  const [method, a, b, c, d] = [0, 1, 2, 3, 4].map((i) => call[i]);
  switch (method) {
    case "init":
      addPixel(a);
      if (b && b.external_id) external = "" + b.external_id;
      break;
    case "consent":
      revoked = a === "revoke";
      if (!revoked) {
        paused.forEach(report);
        paused = [];
      }
      break;
    case "dataProcessingOptions":
      if (own) break;
      pixelLimited = a && a.indexOf("LDU") >= 0 ? { country: +b || 0, state: +c || 0 } : undefined;
      limitTold = undefined;
      break;
    case "track":
    case "trackCustom":
      sight(pixels.length ? pixels : [""], a, c && c.eventID);
      break;
    case "trackSingle":
    case "trackSingleCustom":
      sight([a], b, d && d.eventID);
  }
}

function sight(of: string[], name: unknown, id: unknown, at = now()): void {
  if (!name) return;
  of.forEach((pixel) => {
    const seen: Sighting = {
      n: short(),
      pixel: "" + pixel,
      event_name: "" + name,
      event_id: id == null ? "" : "" + id,
      at,
      url: whole(location.href),
      external_id: external,
      own,
      blocked: false,
    };
    // The Pixel itself keeps quiet between revoke and grant.
    if (revoked) paused.push(seen);
    else report(seen);
  });
}

function call(...args: unknown[]): void {
  own = true;
  safely(() => w.fbq(...args));
  own = false;
}

export const pixelHere = () => typeof w.fbq === "function";

/** Has the Pixel report an event under the same id as the server. */
export const tellPixel = (name: string, data: object, id: string) =>
  call(standard.indexOf(name) < 0 ? "trackCustom" : "track", name, data, { eventID: id });

/** Has the Pixel limit the use of data as the server's copy will be, or no longer, unless the page tells it so itself. */
export function limitPixel(l?: Limited): void {
  const text = JSON.stringify(l);
  if (pixelLimited || text === limitTold) return;
  limitTold = text;
  call("dataProcessingOptions", ...(l ? [["LDU"], l.country, l.state] : [[]]));
}
