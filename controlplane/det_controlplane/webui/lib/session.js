// The signed-in user, and the begin and end of the session.
import { get, post, whenSignedOut } from "./api.js";
import { askAll } from "./live.js";
import { learn } from "./rights.js";
import { holds } from "./router.js";
import { signal } from "./view.js";

/** @typedef {{ id: number, username: string, displayName: string, admin: boolean }} User */

/** The user; null when nobody is signed in, undefined until we know. */
export const user = signal(/** @type {User | null | undefined} */ (undefined));
/** Whether the session has ended by itself: the user signs in over the page, which stays with what is typed there. */
export const lapsed = signal(false);
/** How often somebody signed in: each time pages begin anew, but not over what is not saved. */
export const visit = signal(0);
/** What the cluster says of itself. */
export const cluster = signal(/** @type {any} */ (null));

// Says that there may be a session, so that strangers are not asked about one. The session itself is a cookie that no script reads.
const HINT = "signed-in";

whenSignedOut(() => {
  localStorage.removeItem(HINT);
  if (user.value) lapsed.value = true;
});

/** Ask again what the cluster says of itself. */
export async function refresh() {
  const told = await get("/api/v1/master", {}, { quiet: true });
  if (JSON.stringify(told) !== JSON.stringify(cluster.value)) cluster.value = told;
}

/** @param {User} who */
export async function arrived(who) {
  localStorage.setItem(HINT, "1");
  await learn(who, !!cluster.value?.rbacEnabled);
  if (!holds() || who.id !== user.value?.id) visit.value += 1;
  user.value = who;
  if (lapsed.value) askAll();
  lapsed.value = false;
}

/** Find out who we are; throws when the cluster does not answer. */
export async function begin() {
  const told = await get("/api/v1/master");
  cluster.value = told;
  if (!localStorage.getItem(HINT)) {
    user.value = null;
    return;
  }
  try {
    await arrived((await get("/api/v1/me", {}, { quiet: true })).user);
  } catch (e) {
    if (/** @type {any} */ (e).status !== 401) throw e;
    user.value = null;
  }
}

/** @param {string} username @param {string} password */
export async function signIn(username, password) {
  await arrived((await post("/api/v1/auth/login", { username, password }, { quiet: true })).user);
}

export async function signOut() {
  await post("/api/v1/auth/logout", {}, { quiet: true });
  signedOut();
}

/** The session has ended. */
export function signedOut() {
  localStorage.removeItem(HINT);
  user.value = null;
  lapsed.value = false;
}

/** @param {User | null | undefined} of */
export const shownName = (of) => of?.displayName || of?.username || "";
