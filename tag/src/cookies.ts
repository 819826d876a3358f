// _fbc and _fbp: made as Meta describes them, never with the appendix of Meta's own libraries.

import { mode } from "./consent";
import { domain, firstParty, now, params, settings } from "./page";

const life = 7776000; // 90 days

interface Cookie {
  value: string;
  id: string;
  at: number;
  /** The fifth part is none that is known: forwarded as it is and left alone. */
  doubtful: boolean;
}

/** Reads a value of the form fb.<index>.<ms>.<payload>[.<appendix>]; anything else is no such value. */
export function parse(value: string, payload: RegExp): Cookie | null {
  const m = /^fb\.\d+\.(\d+)\.([^.]+)(?:\.([^.]*))?$/.exec(value);
  if (!m || !payload.test(m[2])) return null;
  // Two letters of old libraries, or six bytes that begin with 1 and a language from 1 to 6.
  const known = m[3] === undefined || /^(AQ|Ag|Aw|BA|BQ|Bg|AQ[E-Za-b][A-Za-z0-9_-]{5})$/.test(m[3]);
  return { value, id: m[2], at: +m[1], doubtful: !known };
}

/** The cookie of that name; of several (on other domains) the newest. */
function cookie(name: string, payload: RegExp): Cookie | null {
  let best: Cookie | null = null;
  document.cookie.split(/; */).forEach((pair) => {
    if (pair.indexOf(name + "=") !== 0) return;
    let value = pair.slice(name.length + 1);
    try {
      value = decodeURIComponent(value);
    } catch (e) {
      // Not encoded by whoever set it: taken as it is.
    }
    const c = parse(value, payload);
    if (c && (!best || c.at > best.at)) best = c;
  });
  return best;
}

const clickID = /^[^\s;,"\\]+$/;
const digits = /^\d+$/;

function write(name: string, value: string, domain: string, age: number): void {
  document.cookie =
    name + "=" + value + "; path=/; max-age=" + age + (domain ? "; domain=." + domain : "") +
    "; SameSite=Lax" + (location.protocol === "https:" ? "; Secure" : "");
}

const index = (domain || (/^[\d.]+$/.test(location.hostname) ? "" : location.hostname)).split(".").length - 1;

/** The newest click that no cookie has yet: its address may be gone before the visitor agrees. */
let click: Cookie | null = null;

/** Looks for a click id in an address; some hold the cookie's whole value. */
export function seek(url: string): void {
  const raw = params(url).fbclid || "";
  const value = /^[\w-]+$/.test(raw) ? "fb." + index + "." + now() + "." + raw : raw;
  click = parse(value, /^(?!(undefined|null)$)[\w-]{1,500}$/) || click;
}

/** Makes and renews the cookies from where the visitor is and has been; true if one was made. */
export function keep(url: string): boolean {
  let made = false;
  if (!click) seek(url);
  const fbc = cookie("_fbc", clickID);
  const set = (name: string, value: string) => {
    write(name, value, domain, life);
    made = true;
  };
  if (click && (!fbc || fbc.id !== click.id)) set("_fbc", click.value);
  else if (fbc) renew("_fbc", fbc);
  click = null;

  if (settings.fbp === "create") {
    const fbp = cookie("_fbp", digits);
    if (fbp) renew("_fbp", fbp);
    else set("_fbp", "fb." + index + "." + now() + "." + half() + half());
  }
  return made;
}

const half = () => Math.floor(Math.random() * 999999999);

/**
 * Gives an unchanged cookie another 90 days. Not where the server can: Safari forgets what scripts write
 * after seven days, and a script that writes again would shorten what the server has set.
 */
function renew(name: string, c: Cookie): void {
  if (!firstParty && !c.doubtful) write(name, c.value, domain, life);
}

/** The two values as they are now, "" where there is none or the visitor has not agreed. */
export function values(): { fbc: string; fbp: string } {
  const value = (c: Cookie | null) => (c && mode() === "full" ? c.value : "");
  return { fbc: value(cookie("_fbc", clickID)), fbp: value(cookie("_fbp", digits)) };
}

/** Takes off what the tag may have set, on whichever domain above the page it was. */
export function forget(): void {
  click = null;
  ["_fbc"].concat(settings.fbp === "create" ? "_fbp" : []).forEach((name) => {
    if (document.cookie.indexOf(name + "=") < 0) return;
    write(name, "", "", 0);
    const labels = location.hostname.split(".");
    labels.forEach((_, i) => write(name, "", labels.slice(i).join("."), 0));
  });
}
