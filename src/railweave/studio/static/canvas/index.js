export { KEYS, TIME_KEYS } from "./input.js";
export { Stage, quantity } from "./stage.js";
