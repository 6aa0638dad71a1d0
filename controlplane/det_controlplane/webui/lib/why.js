// Why something waits, runs or failed, in a sentence.

/** @typedef {{ trialId: number | null, state: string, sentence: string }} Reason */

/** Return the reason that matters most: of what waits, else of what runs, else the first; it may be that of one trial of many. @param {Reason[]} reasons */
export const mainReason = (reasons) => reasons.find((r) => r.state === "QUEUED") ?? reasons.find((r) => r.sentence.startsWith("runs")) ?? reasons[0];

/** Say a reason. @param {Reason | undefined} reason @param {string} subject */
export const saidOf = (reason, subject) => (reason?.sentence ? `${reason.trialId ? `Trial ${reason.trialId}` : subject} ${reason.sentence}` : "");
