// Click ids of other platforms, each for its own destination: the newest of each, for 90 days.

import { seek } from "./cookies";
import { now, params } from "./page";
import { put, read } from "./store";

const names = "gclid gbraid wbraid ttclid msclkid li_fat_id twclid ScCid epik rdt_cid oppref".split(" ");
const life = 7776e6;

type Kept = Record<string, [value: string, at: number]>;
let kept: Kept = {};

/** Takes the click ids of an address, Meta's too. The device keeps them only once it may. */
export function collect(url: string): void {
  seek(url);
  const found = params(url);
  names.forEach((name) => {
    const value = found[name.toLowerCase()];
    if (value && value.length <= 500 && (!kept[name] || kept[name][0] !== value)) kept[name] = [value, now()];
  });
}

/** Joins what was found with what the device knows. */
export function remember(): void {
  const stored = (read("c") || {}) as Kept;
  const before = JSON.stringify(stored);
  for (const name in kept) if (!stored[name] || stored[name][0] !== kept[name][0]) stored[name] = kept[name];
  for (const name in stored) if (!(stored[name][1] > now() - life)) delete stored[name];
  kept = stored;
  const after = JSON.stringify(stored);
  if (after !== before) put("c", after);
}

export function clicks(): Record<string, string> | undefined {
  const found: Record<string, string> = {};
  for (const name in kept) found[name] = kept[name][0];
  return Object.keys(found).length ? found : undefined;
}

export const forgetClicks = () => {
  kept = {};
};
