// What lies on the device. Every key begins alike, so that a refusal finds all of them. Storage may be
// full, switched off or throw on sight: then the tag works from memory.

import { safely } from "./page";

const prefix = "_capiloop.";

export const get = (key: string) => safely(() => localStorage.getItem(prefix + key)) || null;

export const put = (key: string, value: string) =>
  !!safely(() => {
    localStorage.setItem(prefix + key, value);
    return true;
  });

export const drop = (key: string) => void safely(() => localStorage.removeItem(prefix + key));

/** The keys that begin so. */
export function keys(begin: string): string[] {
  const found: string[] = [];
  safely(() => {
    for (let i = 0; i < localStorage.length; i++) {
      const key = localStorage.key(i)!;
      if (key.indexOf(prefix + begin) === 0) found.push(key.slice(prefix.length));
    }
  });
  return found;
}

export const read = (key: string): Record<string, never> | null => safely(() => JSON.parse(get(key)!)) || null;

export const erase = () => keys("").forEach(drop);
