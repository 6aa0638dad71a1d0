// Signing in at an identity provider: the code comes back in the address, and only this tab can use it (PKCE).
import { get, post } from "./api.js";
import { arrived } from "./session.js";

const KEPT = "sign-in";
const back = () => `${location.origin}/det/sign-in`;

function word() {
  const bytes = crypto.getRandomValues(new Uint8Array(48));
  return encoded(bytes);
}

/** @param {Uint8Array} bytes */
function encoded(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @returns {Promise<{ name: string }[]>} where people may sign in, beside here */
export const providers = async () => (await get("/api/v1/auth/oidc/providers")).providers;

/** Leave for the provider; `after` is the page to come back to. @param {string} after */
export async function leave(after) {
  const verifier = word();
  const state = word();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const asked = { redirectUri: back(), codeChallenge: encoded(digest), state };
  const { authorizationUrl } = await post("/api/v1/auth/oidc/begin", asked, { quiet: true });
  if (!/^https?:/.test(authorizationUrl)) throw new Error("The identity provider returned no sign-in URL.");
  sessionStorage.setItem(KEPT, JSON.stringify({ verifier, state, after }));
  location.assign(authorizationUrl);
}

/** Finish what `leave` began; returns the page to show. @param {URLSearchParams} query */
export async function arrive(query) {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  sessionStorage.removeItem(KEPT);
  if (query.get("error")) throw new Error(query.get("error_description") || query.get("error") || "");
  if (!kept || kept.state !== query.get("state")) throw new Error("This sign-in was not started in this tab. Sign in again.");
  const brought = { code: query.get("code"), codeVerifier: kept.verifier, redirectUri: back() };
  await arrived((await post("/api/v1/auth/oidc/finish", brought, { quiet: true })).user);
  return kept.after;
}
