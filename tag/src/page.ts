// The page the tag runs in: its settings, its origin, and the few globals of others that are read.

/** What the server wrote in front of the script. */
export interface Settings {
  site: string;
  wait: "hold" | "drop" | "plain" | "send";
  fbp: "read" | "create";
  /** The gateway's own registrable domain, "" if it has none. */
  domain: string;
  /** The registrable domains of the site's pages. */
  domains: string[];
  pageview: boolean;
  pixel: boolean;
  /** Where the bundle for TCF puts its answer. */
  answer?: (said: "granted" | "denied" | "none") => void;
}

// Globals of other vendors have no types worth the name; each reader checks what it takes.
// eslint-disable-next-line
export type Foreign = any;

export const w = window as Foreign;
export const settings: Settings = w.__capiloop;

const script = document.currentScript as HTMLScriptElement | null;
const src = script ? script.src : (document.querySelector('script[src*="/t.js?site="]') as HTMLScriptElement).src;
/** Origin of the gateway: that of the script itself. */
export const gateway = /^https?:\/\/[^/?#]+/.exec(src)![0];

const ours = (domain: string) => !!domain && ("." + location.hostname).slice(-domain.length - 1) === "." + domain;

/** Whether the gateway is served under the page's own domain, and may therefore set its cookies. */
export const firstParty = ours(settings.domain);

/** The domain for cookies of this page; "" keeps them to its host. */
export const domain = settings.domains.filter(ours)[0] || "";

export const now = () => Date.now();

/** Runs what must not break the page; a tag that fails is better than a shop that does. */
export function safely<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (e) {
    return undefined;
  }
}

/** An address without its query and fragment. */
export const bare = (url: string) => url.replace(/[?#].*/, "");

/** An address without its fragment, unless a router keeps its path there: fragments hold tokens of logins. */
export const whole = (url: string) => url.replace(/#(?![/!]).*/, "");

/** Reads the parameters of an address, those of its fragment too, by lower-case name; the query wins. */
export function params(url: string): Record<string, string> {
  const found: Record<string, string> = {};
  const re = /[?#&]([^=?#&]+)=([^?#&]*)/g;
  for (let m; (m = re.exec(url)); ) {
    const name = m[1].toLowerCase();
    const value = safely(() => decodeURIComponent(m![2].replace(/\+/g, " ")));
    if (value && !found[name]) found[name] = value;
  }
  return found;
}
