// Reads IAB TCF; a file of its own, loaded only where a consent platform of TCF is on the page.

interface TCData {
  eventStatus?: string;
  gdprApplies?: boolean;
  addtlConsent?: string;
  purpose?: { consents?: Record<string, boolean> };
}

type API = (command: string, version: number, answer: (data: TCData | null, ok: boolean) => void) => void;

// Meta is not on TCF's list of vendors. In Google's Additional Consent string it is provider 89.
const meta = "89";

/** The tag needs storage (1), profiles and personalised ads (3, 4), and measurement (7). */
const purposes = [1, 3, 4, 7];

const page = window as unknown as {
  __tcfapi: API;
  __capiloop: { answer: (said: "granted" | "denied" | "none") => void };
};

function granted(data: TCData): boolean {
  const consents = (data.purpose && data.purpose.consents) || {};
  if (!purposes.every((p) => consents[p] === true)) return false;
  // "2~<consented>~dv.<disclosed>"; without the string the purposes alone decide.
  return !data.addtlConsent || ("." + data.addtlConsent.split("~")[1] + ".").indexOf("." + meta + ".") >= 0;
}

page.__tcfapi("addEventListener", 2, (data, ok) => {
  if (!ok || !data) return;
  if (data.gdprApplies === false) page.__capiloop.answer("none");
  // While the banner is open the visitor has not answered; an earlier answer stands.
  else if (data.eventStatus === "tcloaded" || data.eventStatus === "useractioncomplete")
    page.__capiloop.answer(granted(data) ? "granted" : "denied");
});
