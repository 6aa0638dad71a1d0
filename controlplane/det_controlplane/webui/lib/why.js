// Why something waits, runs or failed, in a sentence.
import { counted } from "./format.js";

/** @typedef {{ trialId: number | null, state: string, sentence: string, cause?: string, details?: string, failedTrialId?: number | null, needsNewCode?: boolean, nextStep?: string }} Reason */

/** Return the reason that matters most: of what waits, else of what runs, else the first; it may be that of one trial of many. @param {Reason[]} reasons */
export const mainReason = (reasons) => reasons.find((r) => r.state === "QUEUED") ?? reasons.find((r) => r.sentence.startsWith("runs")) ?? reasons[0];

/** Say a reason; a failure begins with its cause. @param {Reason | undefined} reason @param {string} subject */
export const saidOf = (reason, subject) => (reason?.cause ? reason.cause : reason?.sentence ? `${reason.trialId ? `Trial ${reason.trialId}` : subject} ${inPage(reason.sentence)}` : "");

/** Say what matters most of an experiment: that a trial waits is told beside how many run. @param {Reason[]} reasons @param {string} subject */
export function toldOf(reasons, subject) {
  const said = saidOf(mainReason(reasons), subject);
  const waiting = reasons.filter((r) => r.state === "QUEUED").length;
  const running = reasons.filter((r) => r.trialId && r.state !== "QUEUED").length;
  return waiting && running ? `${counted(running, "trial")} running, ${waiting.toLocaleString("en")} queued. ${said}` : said;
}

/** Name buttons and pages where the sentence names commands for the same. @param {string} sentence @param {string} [of] where the button is, if not here */
export const inPage = (sentence, of = "") => sentence.replace(/resume with `det (experiment activate \d+|task unpause)`/, `select “Resume”${of} to continue`).replace("with `det budget set`", "under Budgets");
