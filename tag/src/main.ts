import { firstParty, now, safely, settings, w, whole, type Foreign } from "./page";
import { collect, remember } from "./clicks";
import * as consent from "./consent";
import { keep } from "./cookies";
import { loaded, watchPixel } from "./fbq";
import { scan, settlePending, startForms, submitted } from "./forms";
import * as queue from "./queue";
import * as send from "./send";

let url = location.href;
let referrer = document.referrer;
let touched = false;

/**
 * For how long (ms) an event that comes by itself is one that an earlier page had: a month where this page was
 * reloaded or reached by back or forward, a day where it was opened by its address, as a second tab is.
 */
const again = (() => {
  const n = performance.getEntriesByType && (performance.getEntriesByType("navigation")[0] as Foreign);
  return (n ? /reload|back/.test(n.type) : performance.navigation.type > 0) ? 2592e6 : referrer ? 0 : 864e5;
})();

function track(name: unknown, data?: unknown, options?: Foreign): void {
  if (!name) return;
  const o = options || {};
  queue.track({
    name: "" + name,
    data: safely(() => JSON.stringify(data)) || "{}",
    id: o.eventID === undefined ? "" : "" + o.eventID,
    person: o,
    at: now(),
    url: location.href,
    referrer,
    again: touched ? 0 : again,
  });
}

/** What may be written once the visitor agrees. */
function write(): void {
  if (keep(url) && firstParty) send.greet();
  remember();
  scan();
}

/** The address may have changed without a new page. */
function moved(counts: boolean): void {
  if (whole(location.href) === whole(url)) return;
  referrer = url;
  url = location.href;
  collect(url);
  if (consent.mode() === "full") write();
  if (counts && settings.pageview) pageview();
}

function pageview(): void {
  // The Pixel counts changes of the address too, without an id; only one of the two may.
  if (settings.pixel && w.fbq) w.fbq.disablePushState = true;
  track("PageView");
}

const commands: Record<string, (...args: Foreign[]) => void> = {
  track,
  pageview,
  submitted,
  consent: consent.say,
  identify: queue.identify,
  ldu: queue.limit,
};

function start(): void {
  collect(referrer);
  collect(url);
  const early = (w.capiloop && w.capiloop.q) || [];
  const api: Foreign = function (name: string) {
    const args = [].slice.call(arguments, 1);
    safely(() => commands[name].apply(null, args));
  };
  api.loaded = true;
  api.q = early;
  w.capiloop = api;

  startForms((name, data, id, person, form) =>
    queue.track({ name, data, id, person, form, at: now(), url: location.href, referrer }),
  );
  watchPixel(queue.see, queue.pixelArrived);
  // The page's own word, even one still in the stub's queue, comes before what else is read.
  for (let i = 0; i < early.length; i++) if (early[i][0] === "consent") api.apply(null, early[i]);
  consent.start(() => {
    safely(() => queue.decided(write));
    safely(scan);
  });
  if (consent.decide().ads === "" && consent.mode() === "full") queue.decided(write);
  if (settings.pageview) pageview();
  for (let i = 0; i < early.length; i++) if (early[i][0] !== "consent") api.apply(null, early[i]);
  // Whoever has kept the stub, as Tag Manager's templates do, calls it later, too.
  early.push = (call: Foreign) => api.apply(null, call);

  for (const name of ["pointerdown", "keydown", "touchstart"]) addEventListener(name, () => (touched = true), true);
  for (const name of ["pushState", "replaceState"] as const) {
    const original = history[name];
    history[name] = function (this: History) {
      const r = original.apply(this, arguments as Foreign);
      safely(() => moved(name === "pushState"));
      return r;
    };
  }
  for (const name of ["popstate", "hashchange"]) addEventListener(name, () => moved(true));
  addEventListener("pagehide", () => {
    settlePending();
    queue.leaving();
  });
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && queue.leaving());
  addEventListener("pageshow", (e) => e.persisted && send.again());
  addEventListener("online", send.again);
  // A Pixel that has not come by now is blocked.
  const judge = () => setTimeout(() => loaded || queue.report(), 8e3);
  if (document.readyState === "complete") judge();
  else addEventListener("load", judge);
}

if (!(w.capiloop && w.capiloop.loaded)) start();
