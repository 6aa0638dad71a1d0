// Logs of one trial after another.
import { ended } from "../../lib/format.js";
import { ask, place } from "../../lib/router.js";
import { useTrials } from "../../lib/trials.js";
import { html } from "../../lib/view.js";
import { Empty, Loaded } from "../../parts/basic.js";
import { Logs } from "../../parts/logs.js";

/** @param {{ experiment: any }} props */
export function ExperimentLogs({ experiment }) {
  const trials = useTrials(experiment);
  return html`
    <${Loaded} of=${trials}>
      ${(/** @type {any[]} */ rows) => {
        if (!rows.length) return html`<div class="panel"><${Empty} title="No trials yet"><p>Logs appear here when the trials start.</p><//></div>`;
        const asked = Number(place.value.query.get("trial"));
        const chosen = rows.find((t) => t.id === asked) ?? rows.find((t) => t.id === experiment.bestTrialId) ?? rows[0];
        return html`
          <div class="stack">
            <label class="row small"><span class="soft">Trial</span>
              <select class="input inline" value=${String(chosen.id)} onChange=${(/** @type {any} */ e) => ask({ trial: e.target.value })}>
                ${rows.map((t) => html`<option value=${String(t.id)}>${t.id}${t.id === experiment.bestTrialId ? " (best)" : ""}</option>`)}
              </select>
            </label>
            <${Logs} key=${chosen.id} path=${`/api/v1/trials/${chosen.id}/logs`} live=${!ended(chosen.state)} name=${`trial-${chosen.id}`} />
          </div>
        `;
      }}
    <//>
  `;
}
