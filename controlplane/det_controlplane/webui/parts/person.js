// A field for the name of an account, with suggestions.
import { get } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/view.js";
import { Line } from "./fields.js";

const OFFERED = 12;
const PAUSE_MS = 200;

/** @param {{ label: string, value: string, set: (value: string) => void, [more: string]: any }} props */
export function Person({ label, value, set, ...more }) {
  const [fitting, setFitting] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    const ended = new AbortController();
    const timer = setTimeout(async () => {
      const told = await get("/api/v1/users", { name: value.trim(), active: true, limit: OFFERED, sortBy: "SORT_BY_USER_NAME" }, { signal: ended.signal }).catch(() => null);
      if (told) setFitting(told.users);
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [value]);
  return html`
    <${Line} label=${label} hint="User name" value=${value} set=${set} list="people" autocomplete="off" ...${more} />
    <datalist id="people">${fitting.map((u) => html`<option value=${u.username}>${u.displayName || u.username}</option>`)}</datalist>
  `;
}

/** Return the account of a user name that was typed. @param {string} name @returns {Promise<any>} */
export const personNamed = async (name) => (await get(`/api/v1/users/${encodeURIComponent(name.trim())}/by-username`)).user;
