export { Terminal } from "@xterm/xterm";
