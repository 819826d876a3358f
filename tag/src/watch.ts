import { safely, type Foreign } from "./page";

/**
 * Calls seen with what a property holds now and with whatever it is set to later. Readers get what seen
 * returns. A property that cannot be redefined is only looked at once.
 */
export function watch(on: Foreign, name: string, seen: (value: Foreign) => Foreign): void {
  let value = on[name] === undefined ? undefined : seen(on[name]);
  safely(() =>
    Object.defineProperty(on, name, {
      configurable: true,
      get: () => value,
      set: (v) => {
        value = seen(v);
      },
    }),
  );
}

/** Calls seen with each thing in a list and each that is pushed later, before it is pushed. */
export function watchList(list: Foreign, seen: (item: Foreign) => void): void {
  if (!list || typeof list.push !== "function" || list.__capiloop) return;
  const tell = (item: Foreign) => safely(() => seen(item));
  for (let i = 0; i < list.length; i++) tell(list[i]);
  const push = list.push;
  safely(() => {
    list.push = function () {
      for (let i = 0; i < arguments.length; i++) tell(arguments[i]);
      return push.apply(list, arguments);
    };
    list.__capiloop = 1;
  });
}
