export { FitAddon } from "@xterm/addon-fit";
