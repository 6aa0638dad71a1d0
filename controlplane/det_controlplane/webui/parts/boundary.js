// What is shown in place of a page that broke.
import { link, place } from "../lib/router.js";
import { Broken, html } from "../lib/view.js";
import { Button, Head } from "./basic.js";

/** Shows its children, or that they cannot be shown: the menu and every other page stay usable. */
export class Boundary extends Broken {
  render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const bare = link(place.value.path);
    return html`
      <${Head} title="This page cannot be shown">
        ${location.search && html`<${Button} href=${bare} onClick=${() => this.setState({ error: null })}>Show it without its filters<//>`}
        <${Button} kind="primary" onClick=${() => this.setState({ error: null })}>Try again<//>
      <//>
      <div class="notice red" role="alert"><p>Something in it was not as expected: ${error.message}. If its address has filters or choices, they may be the reason.</p></div>
    `;
  }
}
