// Fetches of scripts that survive a network which changes meanwhile, as those of phones do.

const PAUSES_MS = [300, 1_000, 3_000];

/** Try again a few times before giving up. @template T @param {() => Promise<T>} act @returns {Promise<T>} */
export async function persist(act) {
  for (const pause of PAUSES_MS) {
    try {
      return await act();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return act();
}
