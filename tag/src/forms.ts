// Forms and buttons that say what they are. A form's event happens when the form was sent successfully, under
// the id that it has carried since it appeared.

import { gateway, safely, w, type Foreign } from "./page";
import { values } from "./cookies";
import { orderID, uuid } from "./ids";
import type { Person } from "./queue";

const attribute = "data-capiloop-event";

type Report = (name: string, data: string, id: string, person: Person | undefined, form: boolean) => void;

interface Form {
  form: HTMLFormElement;
  /** The element with the attributes: the form, or its button. */
  says: Element;
  id: string;
  /** The last id that was reported. */
  told: string;
  /** What is waited for after a submit that the page handles itself. */
  watching?: () => void;
  person?: Person;
}

const forms = new WeakMap<Element, Form>();
let report: Report;

/** The data of an event, from the attributes of its element. */
function data(el: Element): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  const get = (name: string) => el.getAttribute("data-capiloop-" + name);
  const value = get("value");
  if (value && !isNaN(+value)) found.value = +value;
  for (const name of ["currency", "content-name", "order-id"]) if (get(name)) found[name.replace("-", "_")] = get(name);
  const ids = get("content-ids");
  if (ids) found.content_ids = ids.split(/\s*,\s*/);
  return found;
}

const newID = (f: Form) => orderID(f.says.getAttribute("data-capiloop-order-id") || "") || uuid();

const field = (form: HTMLFormElement, name: string) =>
  form.querySelector('[name="' + name + '"]') as HTMLInputElement | null;

/** Fills a hidden field that the tag has put there, or puts it there unless the page has its own of that name. */
function fill(form: HTMLFormElement, name: string, value: string): void {
  let input = field(form, name);
  if (!input && value) {
    input = document.createElement("input");
    input.type = "hidden";
    input.name = name;
    input.setAttribute("data-capiloop", "");
    form.appendChild(input);
  }
  if (input && input.hasAttribute("data-capiloop")) input.value = value;
}

/** Puts the ids into a form's hidden fields. The page's own event_id counts as the form's, if it has a value. */
function prepare(f: Form): void {
  const theirs = field(f.form, "event_id");
  if (theirs && !theirs.hasAttribute("data-capiloop")) {
    if (theirs.value && theirs.value !== f.told) f.id = theirs.value;
    else theirs.value = f.id;
  }
  fill(f.form, "event_id", f.id);
  const c = values();
  fill(f.form, "fbc", c.fbc);
  fill(f.form, "fbp", c.fbp);
}

/** Looks for forms that say something; those known already get what has changed. */
export function scan(): void {
  const found = document.querySelectorAll("[" + attribute + "]");
  for (let i = 0; i < found.length; i++) {
    const says = found[i];
    const form = formOf(says);
    if (!form) continue;
    let f = forms.get(form);
    if (!f) {
      f = { form, says, id: "", told: "" };
      f.id = newID(f);
      forms.set(form, f);
      watchSubmit(f);
    }
    safely(() => prepare(f!));
  }
}

/** The form an element speaks for: itself, or that which its button sends. */
function formOf(el: Element): HTMLFormElement | null {
  if (el instanceof HTMLFormElement) return el;
  const button = el as HTMLButtonElement;
  return /^(submit|image)$/.test(button.type || "") && button.form ? button.form : null;
}

/** Scripts may send a form without any submit event. */
function watchSubmit(f: Form): void {
  const submit = f.form.submit;
  if (typeof submit !== "function") return;
  f.form.submit = () => {
    safely(() => {
      f.person = f.person || match(f);
      succeed(f);
    });
    submit.call(f.form);
  };
}

/** The e-mail and phone typed into a form that allows reading them. */
function match(f: Form): Person | undefined {
  if (!f.form.hasAttribute("data-capiloop-match") && !f.says.hasAttribute("data-capiloop-match")) return;
  const value = (selector: string) => {
    const inputs = f.form.querySelectorAll(selector) as NodeListOf<HTMLInputElement>;
    for (let i = 0; i < inputs.length; i++) if (inputs[i].value) return inputs[i].value;
    return undefined;
  };
  return {
    em: value('[type=email],[autocomplete~=email],input[name*="email" i],input[name*="e-mail" i]'),
    ph: value('[type=tel],[autocomplete~=tel],input[name*="phone" i]'),
  };
}

/** Reports a form's event, once for each id, and gives the form another for when it is filled in again. */
function succeed(f: Form, renew = false): void {
  if (f.watching) f.watching();
  if (f.told !== f.id) {
    f.told = f.id;
    const says = f.says;
    report(says.getAttribute(attribute)!, JSON.stringify(data(says)), f.id, f.person, true);
    f.person = undefined;
  }
  if (renew) again(f);
}

function again(f: Form): void {
  if (f.told !== f.id) return;
  f.id = newID(f);
  const theirs = field(f.form, "event_id");
  if (theirs) theirs.value = f.id;
}

/** The page says that a form was taken. */
export function submitted(el: unknown): void {
  scan();
  const f = el instanceof Element && forms.get(el);
  if (!f) return;
  f.person = f.person || match(f);
  succeed(f, true);
}

let pending: (() => void)[] = [];

function onSubmit(e: Event): void {
  scan();
  const form = e.target as HTMLFormElement;
  const f = forms.get(form);
  if (!f) return;
  const button = (e as SubmitEvent).submitter;
  if (button && button.hasAttribute(attribute)) f.says = button;
  else if (form.hasAttribute(attribute)) f.says = form;
  else if (button) return; // another button of a form that says nothing itself
  prepare(f);
  f.person = match(f);
  // Contact Form 7 answers 200 for refused forms too; it says by an event of its own what it took.
  const unwatch = f.watching || (/wpcf7-form/.test(form.className) ? () => {} : watchRequests(f));
  f.watching = unwatch;
  // Whether the page handles it is known once every listener has run.
  const check = () => {
    if (e.defaultPrevented) return;
    unwatch();
    // A page that does not let the browser check still says by its fields what is wrong.
    if (!form.querySelector(":invalid")) succeed(f);
  };
  pending.push(check);
  setTimeout(settlePending, 0);
}

export function settlePending(): void {
  const list = pending;
  pending = [];
  list.forEach(safely);
}

/**
 * Watches the requests that follow a submit until one shows that the form was taken. The wrappers of fetch and
 * XMLHttpRequest are there only until then, for a minute at most.
 */
function watchRequests(f: Form): () => void {
  const { fetch: originalFetch } = w;
  const xhr = XMLHttpRequest.prototype;
  const { open, send } = xhr;
  const id = f.id;
  let over = false;

  const stop = () => {
    if (over) return;
    over = true;
    f.watching = undefined;
    clearTimeout(timer);
    if (w.fetch === wrappedFetch) w.fetch = originalFetch;
    if (xhr.open === wrappedOpen) xhr.open = open;
    if (xhr.send === wrappedSend) xhr.send = send;
  };
  const timer = setTimeout(stop, 6e4);

  /** What the end of a request says, or nothing if the request does not carry the form's id. */
  const follow = (url: string, body: unknown) => {
    if (over || url.indexOf(gateway + "/t") === 0) return;
    if (url.indexOf(id) < 0 && !holds(body, id)) return;
    return (ok: boolean) => {
      if (!over && ok) succeed(f, true);
    };
  };

  const wrappedFetch = function (this: unknown, input: Foreign, init?: RequestInit) {
    const answer = originalFetch.apply(this, arguments) as Promise<Response>;
    safely(() => {
      const asked = input && input.url ? (input as Request) : null;
      const url = absolute(asked ? asked.url : "" + input);
      const end = follow(url, init && init.body);
      if (!end) return;
      answer.then(
        (r) => {
          if (!(r.type === "opaqueredirect" || (r.status >= 200 && r.status < 400))) return end(false);
          if (!/json/.test(r.headers.get("Content-Type") || "")) return end(true);
          return r.clone().text().then((text) => end(!refusing(text)), () => end(true));
        },
        () => end(false),
      );
    });
    return answer;
  };
  const wrappedOpen = function (this: Foreign, _: string, url: string) {
    this.__capiloop = url;
    return open.apply(this, arguments as Foreign);
  };
  const wrappedSend = function (this: Foreign, body?: unknown) {
    safely(() => {
      const end = follow(absolute("" + this.__capiloop), body);
      if (end)
        this.addEventListener("loadend", () => {
          const text = safely(() => this.responseText) || "";
          end(this.status >= 200 && this.status < 400 && !refusing(text));
        });
    });
    return send.apply(this, arguments as Foreign);
  };
  if (originalFetch) w.fetch = wrappedFetch;
  xhr.open = wrappedOpen as Foreign;
  xhr.send = wrappedSend as Foreign;
  return stop;
}

/** WordPress answers 200 with success: false where it refuses. */
const refusing = (text: string) => /^\s*\{\s*"success"\s*:\s*false\b/.test(text);

function holds(body: Foreign, id: string): boolean {
  let found = ("" + body).indexOf(id) >= 0;
  if (body instanceof FormData && body.forEach) body.forEach((v) => (found = found || v === id));
  return found;
}

const absolute = (url: string) => {
  const a = document.createElement("a");
  a.href = url;
  return a.href;
};

let clicked: unknown;

/** Buttons and links that send no form report the click itself. */
function onClick(e: Event): void {
  const el = e.target instanceof Element && e.target.closest("[" + attribute + "]");
  if (!el || formOf(el) || el instanceof HTMLFormElement) return;
  // A double click is one.
  if (el === clicked) return;
  clicked = el;
  setTimeout(() => (clicked = 0), 1e3);
  report(el.getAttribute(attribute)!, JSON.stringify(data(el)), "", undefined, false);
}

export function startForms(tell: Report): void {
  report = tell;
  addEventListener("submit", (e) => safely(() => onSubmit(e)), true);
  addEventListener("click", (e) => safely(() => onClick(e)), true);
  document.addEventListener("wpcf7mailsent", (e) => safely(() => submitted((e.target as Element).closest("form") || (e.target as Element).querySelector("form"))));
  addEventListener("pageshow", (e) => {
    if (!e.persisted) return;
    const all = document.forms;
    for (let i = 0; i < all.length; i++) {
      const f = forms.get(all[i]);
      if (f) again(f);
    }
  });
  let due = 0;
  const later = () => {
    if (!due)
      due = setTimeout(() => {
        due = 0;
        safely(scan);
      }, 30) as unknown as number;
  };
  new MutationObserver(later).observe(document.documentElement, { childList: true, subtree: true });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", scan);
  safely(scan);
}
