// Ids of events: random, or the order's so that the shop's server has the same one.

/** A UUID of version 4 (RFC 9562). */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  let s = "";
  bytes.forEach((b, i) => (s += (i > 3 && i < 11 && !(i & 1) ? "-" : "") + (b + 256).toString(16).slice(1)));
  return s;
}

/** A short random text, for what only must differ. */
export const short = () => Math.random().toString(36).slice(2, 12);

/** The id of an event about an order is the order's: the same wherever it is made. */
export const orderID = (order: unknown) => ("" + order).trim();
