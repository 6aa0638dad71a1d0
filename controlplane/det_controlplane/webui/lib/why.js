// Why something waits, runs or failed, in a sentence.

/** @typedef {{ trialId: number | null, state: string, sentence: string }} Reason */

/**
 * Tell the reason that matters most: of what waits, else of what runs, else the first; it may be that of one trial of many.
 * @param {Reason[]} reasons @param {string} subject
 */
export function reasonOf(reasons, subject) {
  const first = reasons.find((r) => r.state === "QUEUED") ?? reasons.find((r) => r.sentence.startsWith("runs")) ?? reasons[0];
  if (!first?.sentence) return "";
  return `${first.trialId ? `Trial ${first.trialId}` : subject} ${first.sentence}`;
}
