// What the visitor has decided. The page's own word wins; else the stricter of Google Consent Mode and TCF.

import { gateway, safely, settings, w, type Foreign } from "./page";
import { watch, watchList } from "./watch";

export interface Decision {
  ads: "granted" | "denied" | "";
  by: "site" | "gcm" | "tcf" | "none" | "plain";
  gpc: boolean;
}

/** What may be done with an event now. */
export type Mode = "full" | "hold" | "drop" | "plain" | "bare";

let site: Decision["ads"] = "";
let tcf: "" | "granted" | "denied" | "none" = "";
let tcfThere = false;
let last: Decision["ads"] | undefined;
let changed = () => {};

/** Answers of Consent Mode for the two purposes that matter here: true is granted. */
const gcmKeys = ["ad_storage", "ad_user_data"];
type Answers = Record<string, boolean | undefined>;
const defaults: Answers = {};
const updates: Answers = {};
const heard: Answers = {};

export function decide(): Decision {
  const gpc = !!(navigator as Foreign).globalPrivacyControl;
  const is = (ads: Decision["ads"], by: Decision["by"]) => ({ ads, by, gpc });
  if (site) return is(site, "site");
  const g = gcm();
  if (tcf === "denied") return is(tcf, "tcf");
  if (g === "denied") return is(g, "gcm");
  // TCF that has not answered, and Consent Mode where TCF does not apply, are waited for.
  if (tcf === "granted" || (tcf === "none" && g === "absent")) return is("granted", "tcf");
  if (g === "granted" && (!tcfThere || tcf)) return is("granted", "gcm");
  return is("", "none");
}

export function mode(): Mode {
  const ads = decide().ads;
  return ads === "granted" ? "full" : ads === "denied" ? "bare" : settings.wait === "send" ? "full" : settings.wait;
}

/** A default is what holds before the visitor was asked; only an update is an answer. */
function gcm(): "absent" | "waiting" | "granted" | "denied" {
  listenToGoogle();
  let seen = false;
  let granted = true;
  let denied = false;
  gcmKeys.forEach((key) => {
    const now = updates[key] === undefined ? defaults[key] : updates[key];
    if (now !== undefined) seen = true;
    if (!now) granted = false;
    if (updates[key] === false) denied = true;
  });
  return !seen ? "absent" : denied ? "denied" : granted ? "granted" : "waiting";
}

let listening = false;
/** Tag Manager's consent templates do not go through the data layer; the state that Google's tags share knows them. */
function listenToGoogle(): void {
  const ics: Foreign = w.google_tag_data && w.google_tag_data.ics;
  if (!ics || !ics.entries) return;
  gcmKeys.forEach((key) => {
    const entry = ics.entries[key] || {};
    if (entry.default !== undefined) defaults[key] = !!entry.default;
    // Whoever spoke last: this state may lag behind the data layer.
    if (entry.update !== undefined && entry.update !== heard[key]) heard[key] = updates[key] = !!entry.update;
  });
  if (!listening && ics.addListener) {
    listening = true;
    safely(() => ics.addListener(gcmKeys, refresh));
  }
}

function readLayer(item: Foreign): void {
  if (!item || item[0] !== "consent" || !item[2]) return;
  gcmKeys.forEach((key) => {
    const value = item[2][key];
    if (value !== "granted" && value !== "denied") return;
    // The region of the visitor is not known here, so one default that denies is enough to wait.
    if (item[1] === "default") defaults[key] = defaults[key] !== false && value === "granted";
    if (item[1] === "update") updates[key] = value === "granted";
  });
  refresh();
  setTimeout(refresh, 0);
}

/** Loads the reader of TCF once a consent platform shows itself. */
function findTCF(): void {
  if (tcfThere || typeof w.__tcfapi !== "function") return;
  tcfThere = true;
  settings.answer = (said) => {
    tcf = said;
    refresh();
  };
  const script = document.createElement("script");
  script.src = gateway + "/t-tcf.js";
  script.async = true;
  document.head.appendChild(script);
}

/** Looks again and tells who wants to know if the decision has changed. */
export function refresh(): void {
  findTCF();
  const ads = decide().ads;
  if (ads === last) return;
  last = ads;
  changed();
}

export function say(what: unknown): void {
  if (what === "grant" || what === "deny") site = what === "grant" ? "granted" : "denied";
  refresh();
}

/** Starts reading; tell is called at once if there is a decision, and whenever it changes. */
export function start(tell: () => void): void {
  watch(w, "dataLayer", (layer) => {
    watchList(layer, readLayer);
    return layer;
  });
  // One that comes when all else is decided has its say, too.
  watch(w, "__tcfapi", (api) => {
    setTimeout(refresh, 0);
    return api;
  });
  // Only now: of what was answered before the tag came, the last counts.
  changed = tell;
  last = "";
  refresh();
  // A consent platform may come after the tag, and Google's state may change without a call.
  const timer = setInterval(() => {
    refresh();
    if (last && (!w.google_tag_data || listening)) clearInterval(timer);
  }, 300);
}
